"""`glance`, the embedded backbone: small trained eyes for the twin's world, and stated rules over what they see."""

from typing import Final

NOTICE: Final = (
    "glance is a small stand-in for a vision-language model: it recognises the drawn things and scenes of the twin's "
    "videos (trace-ves synth) and, with the extra 'ocr', words on the screen; of anything else it cannot tell."
)
"""One line on what this backbone can and cannot see."""
