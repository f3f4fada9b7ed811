import pathlib
import sys

# The suites from outside share how they call the program.
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "acceptance"))
