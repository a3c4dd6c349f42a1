"""Every example runs as its own program, makes its claim, and complains in one line."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
SHORT = ["--steps", "3", "--rank", "2"]


@pytest.fixture(scope="module")
def mains() -> dict[str, Any]:
    """The `main` of each example that takes options; neither is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))  # as for a script that is run by its name
        names = ["lora_gpt2.py", "explain_gpt2.py"]
        return {name: runpy.run_path(str(EXAMPLES / name))["main"] for name in names}


def run(script: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The script in a Python of its own where any warning is an error."""
    program = "import runpy, sys; sys.argv[:] = sys.argv[1:]; "
    program += f"sys.path[0] = {str(script.parent)!r}; "  # as for a script that is run by its name
    program += "runpy.run_path(sys.argv[0], run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(script), *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=300,
    )


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        pytest.param("lora_gpt2.py", SHORT, "trainable:", id="lora_gpt2"),
        pytest.param("int8_equinox.py", [], "bytes", id="int8_equinox"),
        pytest.param("zero_biases_nnx.py", [], "additions", id="zero_biases_nnx"),
    ],
)
def test_an_example_runs_and_makes_its_claim(name: str, options: list[str], said: str) -> None:
    done = run(EXAMPLES / name, *options)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_these_are_all_the_examples() -> None:
    names = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert names == ["explain_gpt2.py", "int8_equinox.py", "lora_gpt2.py", "zero_biases_nnx.py"]


def test_the_explained_step_is_written_as_a_page(tmp_path: Path) -> None:
    done = run(EXAMPLES / "explain_gpt2.py", "--layers", "1", "--page", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    assert "8 calls ran a handler; nothing became dense." in done.stdout
    assert "LoraMatrix: 1 primitive lacks a handler: square x4" in done.stdout
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('<div class="step fine">') == 8
    assert "FlaxGPT2LMHeadModule / transformer" in page


@pytest.mark.parametrize("name", ["int8_equinox.py", "zero_biases_nnx.py"])
def test_a_small_example_is_under_120_lines(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) < 120


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("lora_gpt2.py", ["--steps", "0"], "argument --steps: at least 1, not 0"),
        ("lora_gpt2.py", ["--steps", "few"], "argument --steps: invalid int value: 'few'"),
        ("lora_gpt2.py", ["--rank", "0"], "argument --rank: from 1 to 128, not 0"),
        ("lora_gpt2.py", ["--rank", "129"], "argument --rank: from 1 to 128, not 129"),
        (
            *("lora_gpt2.py", ["--alpha", "nan"]),
            "argument --alpha: a finite number other than 0, not nan",
        ),
        ("lora_gpt2.py", ["--seed", "-1"], "argument --seed: from 0 to 2**31 - 1, not -1"),
        ("lora_gpt2.py", ["--stepz", "3"], "unrecognized arguments: --stepz 3"),
        ("explain_gpt2.py", ["--layers", "0"], "argument --layers: at least 1, not 0"),
        (
            *("explain_gpt2.py", ["--page", "nowhere/page.html"]),
            "argument --page: there is no folder nowhere",
        ),
    ],
    ids=str,
)
def test_a_wrong_option_is_told_in_one_line(
    name: str, options: list[str], complaint: str, mains: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        mains[name](options)
    assert left.value.code == 2
    assert capsys.readouterr().err == f"{name}: {complaint} (see --help)\n"


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("lora_gpt2.py", "transformers"),
        ("lora_gpt2.py", "optax"),
        ("lora_gpt2.py", "tqdm"),
        ("int8_equinox.py", "equinox"),
        ("zero_biases_nnx.py", "flax"),
    ],
)
def test_a_missing_extra_is_told_in_one_line(
    name: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    # Python prints a text that it is left with, and exits with 1.
    (line,) = str(left.value.code).splitlines()
    assert line.startswith(f"{name}: ")
    assert missing in line
    assert line.endswith("it is in the extra: pip install 'typedqax[examples]'")


def test_lora_compiles_to_what_is_written_into_the_model_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XLA_FLAGS")  # XLA optimizes as it does for a user
    done = run(ROOT / "tests" / "benchmarks" / "lora_cost.py")
    costs = json.loads(done.stdout)
    assert set(costs) == {"product", "gpt2_step"}
    for both in costs.values():
        assert both["typedqax"] == both["by_hand"]
        assert both["typedqax"]["flops"] > 0
