"""`python -m cli`: the command without its installed script, from whichever checkout is on the path."""

from cli.app import main

main()
