"""Cells of tables: what is cut where there is too little room, and what is not."""

from __future__ import annotations

import pytest

from typedqax._layout import Cell, table

PLACED = Cell("a_handler_with_a_long_name", " (rules.py:225)")


@pytest.mark.parametrize("width", range(1, 50))
def test_no_cell_is_wider_than_its_column(width: int) -> None:
    assert len(PLACED.within(width)) <= width


@pytest.mark.parametrize("width", range(len(PLACED.end) + 1, 50))
def test_the_end_of_a_cell_stays_whole_where_it_has_room(width: int) -> None:
    shown = PLACED.within(width)
    assert shown.endswith(PLACED.end)
    assert shown == str(PLACED) or "…" in shown


@pytest.mark.parametrize("width", range(5, len(PLACED.end) + 1))
def test_of_an_end_that_has_no_room_the_end_stays(width: int) -> None:
    assert PLACED.within(width).endswith(":225)"[-(width - 1) :])


def test_a_table_gives_what_one_column_leaves_to_the_first_that_wants_it() -> None:
    rows = [((Cell("1"), Cell("short"), PLACED), ["a note"])]
    wide = table(("n", "what", "ran"), rows, (10, 40, 50), 60).splitlines()
    assert wide[2] == f"1  short  {PLACED}"
    assert wide[3].strip() == "· a note"
    narrow = table(("n", "what", "ran"), rows, (10, 40, 50), 40).splitlines()
    # 40 but for two gaps of 2: 1 and 5 are all that the first two want, and 30 are left.
    assert narrow[2] == "1  short  a_handler_with… (rules.py:225)"
    assert len(narrow[2]) == 40
