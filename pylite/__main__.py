"""`python -m pylite`: the command line."""
import sys

from pylite.cli import main

sys.exit(main())
