"""The program `trace-ves`, also as `python -m trace_ves`."""

import signal


def main() -> None:
    """Run the command line. Ctrl-C while it is being imported ends the process at once, without a traceback."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from trace_ves.cli import main as run

    signal.signal(signal.SIGINT, handler)
    run()


if __name__ == "__main__":
    main()
