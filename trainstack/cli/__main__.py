"""`python -m trainstack.cli`: the command without its installed script, from whichever checkout is on the path."""

from trainstack.cli.app import main

main()
