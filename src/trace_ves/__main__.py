"""`python -m trace_ves` is the same as `trace-ves`."""

from trace_ves.cli import main

if __name__ == "__main__":
    main()
