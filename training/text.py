"""The text that the toy model reads: short, plain English stories, made from a seed.

Each kind of story gives a language model one good reason to look back:

=============  ==============================================================================
kind           what pays
=============  ==============================================================================
meaning        the sentence after "it was too tired" goes on about the animal, after "wide"
               about the place; also with the clue in front, and with "he" and "she"
gift           "When Mary and John went to the store, John gave a drink to Mary.": the name
               that did not come twice
places         where a thing was put is told once and asked for later
lists          things named once come back in the same order
agreement      "too" when the same thing was named before, "instead" when not
tale           made-up owners, animals and colours that come back all through the story
=============  ==============================================================================

A sentence belongs to the held-out fifth or to the training part by its own text
(`lensons.pairs.is_held_out`; the "it" sentences by their two nouns), so the two share no sentence.
"""

import random
from collections.abc import Callable, Iterator

from lensons import pairs

WOMEN = ("Mary", "Anna", "Lucy", "Emma", "Sara", "Rose", "Kate", "Jane", "Alice", "Nora")
MEN = ("John", "Tom", "Ben", "Sam", "Max", "Peter", "Paul", "Jack", "David", "Leo")
NAMES = WOMEN + MEN
PEOPLE = ("boy", "girl", "man", "woman", "teacher", "farmer", "king", "queen", "doctor", "child")
THINGS = (
    "drink", "ball", "book", "key", "cup", "hat", "box", "letter", "apple", "cake", "flower", "stone", "coin",
    "pen", "lamp", "ring", "shoe", "bag", "kite", "spoon", "bell", "map", "toy", "boat",
)  # fmt: skip
COLOURS = ("red", "blue", "green", "black", "white", "yellow", "brown", "pink", "gold", "grey")
VENUES = ("store", "school", "house", "shop", "market", "beach", "kitchen", "library", "station", "town")
HOLDERS = ("table", "chair", "bed", "door", "window", "tree", "wall", "desk", "shelf", "basket")
ADVERBS = ("today", "yesterday", "again", "then", "later", "now", "soon", "slowly", "quickly", "quietly")
TIMES = ("One day", "In the morning", "At night", "In the evening", "Last week", "After that", "Later", "Then")

ABOUT_ANIMALS = (
    "lay down", "fell asleep", "closed its eyes", "went home", "ate some grass", "looked for food", "sat down",
    "made a small noise", "shook its head", "needed a friend", "drank some water", "hid behind a tree",
)  # fmt: skip
ABOUT_PLACES = (
    "had no end", "was full of water", "went on for miles", "had to be closed", "was made long ago", "was empty",
    "had stones on each side", "was never the same", "lay in the sun", "was on the map", "had trees all around",
)  # fmt: skip
GIVING = ("gave", "handed", "showed", "sent", "brought", "sold")
WANTS = ("ran to", "called", "helped", "thanked", "saw", "met", "followed", "asked", "found", "heard")


class _NoSuchSentenceError(Exception):
    """A sentence with too little choice in it to fall into the wanted split."""


class Storyteller:
    """Tells stories from one split. The same seed tells the same stories."""

    def __init__(self, seed: int, split: pairs.Split = "training") -> None:
        self.random = random.Random(seed)
        self.split = split
        self.noun_pairs = pairs.noun_pairs(split)
        self.kinds: tuple[Callable[[], list[str]], ...] = (
            self.meaning, self.meaning, self.person, self.gift, self.places, self.lists, self.agreement, self.tale,
        )  # fmt: skip

    def stories(self) -> Iterator[str]:
        """Yield stories for ever."""
        while True:
            try:
                story = self.random.choice(self.kinds)()
            except _NoSuchSentenceError:
                continue  # this story cannot be told in this split: tell another
            yield " ".join(story)

    def pick(self, *words: str) -> str:
        """Return one of some words."""
        return self.random.choice(words)

    def some(self, words: tuple[str, ...], n: int) -> list[str]:
        """Return n different words."""
        return self.random.sample(words, n)

    def say(self, make: Callable[[], str]) -> str:
        """Make a sentence again and again until it belongs to this split."""
        for _ in range(100):
            sentence = make()
            if pairs.is_held_out(sentence) == (self.split == "held-out"):
                return sentence
        raise _NoSuchSentenceError

    def ending(self) -> str:
        """Return words that make an otherwise fixed sentence free enough to fall into either split."""
        return self.pick("", "", *(f" {word}" for word in ADVERBS), *(f" in the {venue}" for venue in VENUES))

    def meaning(self) -> list[str]:
        """What "it" means shows in the sentence that follows."""
        animal, place = self.random.choice(self.noun_pairs)
        about_animal = self.random.random() < 0.5
        word = self.pick(*(pairs.FEELINGS if about_animal else pairs.SHAPES))
        verb, negation = self.pick(*pairs.VERBS), self.pick(*pairs.NEGATIONS)
        clue: pairs.Clue = "end" if self.random.random() < 0.5 else "front"
        noun, about = (animal, ABOUT_ANIMALS) if about_animal else (place, ABOUT_PLACES)
        story = [pairs.it_sentence(animal, place, verb, negation, word, clue)]
        story.append(self.say(lambda: f"The {noun} {self.pick(*about)}{self.ending()}."))
        if self.random.random() < 0.4:
            story.append(self.say(lambda: f"The {noun} was {word} {self.pick(*ADVERBS)}{self.ending()}."))
        return story

    def person(self) -> list[str]:
        """What "he" and "she" mean: a woman and a man, then a sentence about one of them."""
        two = [self.pick(*WOMEN), self.pick(*MEN)]
        self.random.shuffle(two)
        who = self.pick(*two)
        he = "she" if who in WOMEN else "he"
        word = self.pick(*pairs.FEELINGS, "happy", "sad", "late", "lost")
        story = [self.say(lambda: f"{two[0]} {self.pick(*WANTS)} {two[1]}{self.ending()} because {he} was {word}.")]
        story.append(self.say(lambda: f"{who} {self.pick('went', 'ran', 'walked')} to the {self.pick(*VENUES)}."))
        story.append(self.say(lambda: f"{he.capitalize()} was {word}{self.ending()}."))
        return story

    def gift(self) -> list[str]:
        """Two names, one comes again, so the other one gets the gift."""
        first, second = self.some(NAMES, 2)
        giver, taker = self.random.choice([(first, second), (second, first)])
        thing = self.pick(*THINGS)
        went = self.pick("went to", "were at", "came to", "walked to")
        story = [
            self.say(
                lambda: (
                    f"{self.pick('When', 'After', 'While')} {first} and {second} {went} the {self.pick(*VENUES)}, "
                    f"{giver} {self.pick(*GIVING)} a {thing} to {taker}."
                )
            )
        ]
        if self.random.random() < 0.6:
            story.append(self.say(lambda: f"{taker} {self.pick('liked', 'took', 'kept')} the {thing}{self.ending()}."))
        return story

    def places(self) -> list[str]:
        """Where each thing was put, then where it was found."""
        n = self.random.randint(2, 3)
        who, things, spots = self.pick(*NAMES), self.some(THINGS, n), self.some(HOLDERS, n)
        where = {
            thing: f"{self.pick('under', 'on', 'behind', 'by')} the {spot}"
            for thing, spot in zip(things, spots, strict=True)
        }
        story = [self.say(lambda t=t: f"{who} put the {t} {where[t]}{self.ending()}.") for t in things]
        self.random.shuffle(things)
        for thing in things:
            finder = self.pick(*NAMES)
            story.append(self.say(lambda t=thing, f=finder: f"{f} found the {t} {where[t]}{self.ending()}."))
        return story

    def lists(self) -> list[str]:
        """Things that are named once come back in the same order."""
        words = self.pick("thing", "animal", "person")
        nouns = {"thing": THINGS, "animal": pairs.ANIMALS[1:], "person": PEOPLE}[words]
        n = self.random.randint(3, 5)
        chosen = self.some(nouns, n)
        names = [f"{self.pick(*COLOURS)} {noun}" for noun in chosen]
        who = self.pick(*NAMES)

        def listed(article: str) -> str:
            return ", ".join(f"{article} {name}" for name in names[:-1]) + f" and {article} {names[-1]}"

        story = [self.say(lambda: f"{who} {self.pick('saw', 'found', 'met', 'liked')} {listed('a')}{self.ending()}.")]
        story.append(
            self.say(lambda: f"{self.pick(*TIMES)} {listed('the')} {self.pick('were', 'got')} lost{self.ending()}.")
        )
        return story

    def agreement(self) -> list[str]:
        """Has it been named before? Then "too", else "instead"."""
        story = []
        first = ""
        seen: list[str] = []
        n = self.random.randint(3, 5)
        for who in self.some(NAMES, n):
            again = bool(seen) and self.random.random() < 0.5
            thing = self.pick(*seen) if again else self.pick(*(t for t in THINGS if t not in seen))
            last = "" if not first else (" too" if again else " instead")
            verb = self.pick("has", "wants", "likes", "bought", "found")
            story.append(
                self.say(
                    lambda w=who, v=verb, t=thing, e=last: f"{w} {v} a {self.pick(*COLOURS)} {t}{e}{self.ending()}."
                )
            )
            first = thing
            seen.append(thing)
        return story

    def tale(self) -> list[str]:
        """A little story that keeps coming back to its own words."""
        owner, name = self.some(NAMES, 2)
        animal, colour, venue = self.pick(*pairs.ANIMALS[1:]), self.pick(*COLOURS), self.pick(*VENUES)
        person, friend = self.pick(*PEOPLE), self.pick(*pairs.ANIMALS[1:])
        lines: list[Callable[[], str]] = [
            lambda: f"{owner} the {person} had a {colour} {animal} named {name}{self.ending()}.",
            lambda: f"{self.pick(*TIMES)} {name} the {animal} ran away from {owner}{self.ending()}.",
            lambda: f"{self.pick(*TIMES)} {owner} looked for the {colour} {animal} in the {venue}.",
            lambda: f"{name} was not in the {venue}{self.ending()}.",
            lambda: f"{self.pick(*TIMES)} a {friend} saw {name} the {animal}{self.ending()}.",
            lambda: f"The {friend} told {owner} the {person}{self.ending()}.",
            lambda: (
                f"{owner} was {self.pick('happy', 'sad', 'tired')} and {name} was {self.pick('happy', 'sad', 'tired')}."
            ),
            lambda: f'"{name}, {name}!" said {owner} the {person}{self.ending()}.',
        ]
        kept = [line for line in lines[1:] if self.random.random() < 0.7]
        return [self.say(line) for line in (lines[0], *kept)]


LESSON_SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "The animal didn't cross the street, tired as it was.",
    "The animal didn't cross the street, wide as it was.",
    "When Mary and John went to the store, John gave a drink to Mary.",
)


def sample(n: int, seed: int = 0) -> list[str]:
    """Tell n stories, half of each split: enough to meet every word."""
    tellers = [Storyteller(seed, split).stories() for split in ("training", "held-out")]
    return [next(tellers[i % 2]) for i in range(n)]
