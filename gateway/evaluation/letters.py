"""Letters for pictures: three dots wide, five high, capitals only. Pure."""

from collections.abc import Iterator

WIDTH, HEIGHT = 4, 5  # with the gap to the next letter
# Five rows, each a digit whose three bits are the dots from left to right.
_LETTERS = {
    "A": "25755", "B": "65656", "C": "34443", "D": "65556", "E": "74647", "F": "74644", "G": "34553", "H": "55755", "I": "72227",
    "J": "11152", "K": "55655", "L": "44447", "M": "57755", "N": "65555", "O": "25552", "P": "65644", "Q": "25573", "R": "65655",
    "S": "34216", "T": "72222", "U": "55557", "V": "55552", "W": "55775", "X": "55255", "Y": "55222", "Z": "71247", "0": "75557",
    "1": "26227", "2": "61247", "3": "61216", "4": "55711", "5": "74616", "6": "34652", "7": "71222", "8": "25252", "9": "25316",
    ".": "00002", ",": "00024", "-": "00700", "%": "51245", "/": "11244", "(": "24442", ")": "21112", "@": "25743", "_": "00007",
    "[": "64446", "]": "31113", "+": "02720", "=": "07070", ":": "02020", " ": "00000",
}  # fmt: skip
_UNKNOWN = "75557"


def dots(text: str) -> Iterator[tuple[int, int]]:
    """The dots (across, down) of `text` from its upper left corner; what has no letter here is a box."""
    for place, letter in enumerate(text.upper()):
        for down, row in enumerate(_LETTERS.get(letter, _UNKNOWN)):
            for across in range(3):
                if int(row) & (4 >> across):
                    yield place * WIDTH + across, down


def width(text: str) -> int:
    return len(text) * WIDTH
