"""An answer for people: in words, as pictures, as a folder to keep, and in a notebook."""
