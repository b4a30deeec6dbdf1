"""``romco`` and ``python -m romco``: the command line, if what it needs is installed."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from romco.cli.main import main as run
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("romco"):
            raise
        sys.exit(f"error: the command line needs {missing.name}: pip install 'romco[cli]'")
    run()


if __name__ == "__main__":
    main()
