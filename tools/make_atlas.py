"""Draw the pictures of the twin's vocabulary into one atlas, from the colour emoji font of the Noto project.

    apt-get install fonts-noto-color-emoji && pip install pillow
    python tools/make_atlas.py [FONT]

Needed only when `vocabulary.toml` names a new picture. The names of the tiles are in the file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from trace_ves.twin.synthetic.drawing import TILE_PX
from trace_ves.twin.synthetic.vocabulary import Prop, Sprite, vocabulary

FONT = Path("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
ATLAS = Path(__file__).parents[1] / "src/trace_ves/twin/synthetic/atlas.npz"
COPYRIGHT = "Noto Emoji, Copyright 2013-2017 Google Inc., SIL Open Font License 1.1; see atlas.LICENSE"
BITMAP_SIZE = 109
"""The one size at which the font holds bitmaps."""


def picture(tile: Sprite | Prop, font: ImageFont.FreeTypeFont) -> Image.Image:
    """The glyph, tinted, trimmed and fitted into a square."""
    canvas = Image.new("RGBA", (160, 160))
    ImageDraw.Draw(canvas).text((10, 10), chr(int(tile.glyph, 16)), font=font, embedded_color=True)
    drawn = tinted(canvas, tile.tint).crop(canvas.getchannel("A").getbbox())
    drawn.thumbnail((TILE_PX, TILE_PX), Image.Resampling.LANCZOS)
    square = Image.new("RGBA", (TILE_PX, TILE_PX))
    square.paste(drawn, ((TILE_PX - drawn.width) // 2, (TILE_PX - drawn.height) // 2))
    return square


def tinted(image: Image.Image, tint: str | int) -> Image.Image:
    """The picture with its hues turned by so many degrees, or in shades of grey."""
    if not tint:
        return image
    hue, saturation, value = image.convert("RGB").convert("HSV").split()
    if tint == "grey":
        saturation = saturation.point(lambda level: level // 6)
    else:
        turn = round(int(tint) / 360 * 256)
        hue = hue.point(lambda level: (level + turn) % 256)
    turned = Image.merge("HSV", (hue, saturation, value)).convert("RGB").convert("RGBA")
    turned.putalpha(image.getchannel("A"))
    return turned


def main() -> None:
    font = ImageFont.truetype(sys.argv[1] if len(sys.argv) > 1 else str(FONT), BITMAP_SIZE)
    words = vocabulary()
    tiles = [*words.sprites.values(), *words.props.values()]
    drawn = np.stack([np.array(picture(tile, font)) for tile in tiles])
    drawn[drawn[..., 3] == 0] = 0
    names = np.array([tile.name for tile in tiles])
    np.savez_compressed(ATLAS, names=names, tiles=drawn, copyright=np.array(COPYRIGHT))
    print(f"{len(tiles)} tiles, {ATLAS.stat().st_size / 1e6:.2f} MB: {ATLAS}")


if __name__ == "__main__":
    main()
