"""Mistakes, one a file: `MISTAKES.md` tells who notices each, and when.

What stands at the top of a file happens when it is imported: handlers and tables are declared.
`call()`, where there is one, is what the program does then.
"""
