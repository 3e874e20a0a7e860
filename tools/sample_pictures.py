"""Draw the pictures of README: the panel of `trace-ves ask --sample`, and its contact sheet.

Run it after the sample's recording was made again: `python tools/sample_pictures.py docs/images`.
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console

from trace_ves import ask
from trace_ves.cli.answer_panel import show_result
from trace_ves.cli.video_argument import Sample
from trace_ves.web.saving import contact_sheet, sheet_rows


def main(folder: Path) -> None:
    """Write both pictures to a folder."""
    from trace_ves.backbone.registry import open_backbone

    sample = Sample()
    result = ask(sample.film, *sample.question(), backbone=open_backbone(sample.spec))
    console = Console(record=True, force_terminal=True, color_system="truecolor", width=100, file=io.StringIO())
    show_result(result, console=console)
    svg = console.export_svg(title="trace-ves ask --sample")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # no fonts from other servers
    (folder / "ask-sample.svg").write_text(svg, encoding="utf-8")
    contact_sheet(sheet_rows(result)).save(folder / "ask-sample.jpg", quality=85)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
