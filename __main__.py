from pathlib import Path

from trainstack.stacks.program import run

run(Path(__file__).parent)
