"""`python -m halfwave` is the `halfwave` command."""

from halfwave.cli import main

if __name__ == "__main__":
    main()
