"""`python -m tidegate.runtime`: the same as the command `tidegate`."""

from tidegate.runtime.cli import main

if __name__ == "__main__":
    main()
