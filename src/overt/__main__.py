"""``python -m overt`` is the command ``overt``."""

from overt.cli import main

main()
