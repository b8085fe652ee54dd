"""`python -m mosaic`."""

from mosaic.ui.cli.main import main

if __name__ == "__main__":
    main()
