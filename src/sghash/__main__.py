"""`python -m sghash` is the command `sghash`."""

from sghash.cli import main

if __name__ == "__main__":
    main()
