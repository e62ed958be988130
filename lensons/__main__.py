"""``python -m lensons``: the same as the ``lensons`` command."""

import sys

from lensons.cli import main

sys.exit(main())
