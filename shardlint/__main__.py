"""``python -m shardlint``."""

from __future__ import annotations

import sys

from shardlint.cli import main

if __name__ == "__main__":
    sys.exit(main())
