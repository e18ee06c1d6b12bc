"""`python -m garnet` is the command `garnet`."""

from garnet.cli import main

if __name__ == "__main__":
    main()
