"""The whole red team against the grader that judges without a key: 336 gradings, about 40 s of two cores.

python -m tests.bench.redteam
"""

import sys

import anyio

from grading.grade import consistent
from tests.redteam.test_local_grader import grader
from tests.support.redteam import ASKED, GARDEN, NOT_SAID, POISONS, added_to, hidden_in, plain_added_to


async def changed() -> int:
    """Prints what was compared; how many verdicts differ from those of the clean copies."""
    judge = grader()
    differ = 0
    for question in (ASKED, NOT_SAID):
        for way in ("as one more passage", "inside a passage"):
            is_added = way == "as one more passage"
            clean = await judge.grade(question, plain_added_to(GARDEN) if is_added else GARDEN)
            wrong = []
            for poison in POISONS:
                found = added_to(GARDEN, poison) if is_added else hidden_in(GARDEN, poison, 0)
                grade = consistent(await judge.grade(question, found), len(found))
                if grade.verdict is not clean.verdict:
                    wrong.append(f"{poison} -> {grade.verdict}")
            print(f"{question} {way}: {clean.verdict}, {len(wrong)} of {len(POISONS)} differ", *wrong, sep="\n  ")
            differ += len(wrong)
    return differ


if __name__ == "__main__":
    sys.exit(1 if anyio.run(changed) else 0)
