"""Run the command as `python -m trainstack.cli`, from the checkout on the import path."""

from trainstack.cli.app import main

main()
