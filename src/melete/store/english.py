"""Facts of English that no rule gives: irregular forms, and two ways to spell. Part of the store."""

import re
from functools import cache

VERBS = """
arise arose arisen|awake awoke awoken|bear bore borne|beat beaten|become became|begin began begun|bend bent|bet|bid
bind bound|bite bit bitten|bleed bled|blow blew blown|break broke broken|breed bred|bring brought|build built
burn burnt|burst|buy bought|catch caught|choose chose chosen|cling clung|come came|creep crept|cut|deal dealt|dig dug
do did done does|draw drew drawn|dream dreamt|drink drank drunk|drive drove driven|dwell dwelt|eat ate eaten
fall fell fallen|feed fed|feel felt|fight fought|find found|flee fled|fling flung|fly flew flown
forbid forbade forbidden|forget forgot forgotten|forgive forgave forgiven|freeze froze frozen|get got gotten
give gave given|go went gone goes|grind ground|grow grew grown|hang hung|have has had|hear heard|hide hid hidden
hold held|keep kept|kneel knelt|know knew known|lay laid|lead led|lean leant|leap leapt|learn learnt|leave left
lend lent|lie lain|light lit|lose lost|make made|mean meant|meet met|mistake mistook mistaken|overcome overcame
pay paid|prove proven|quit|read|ride rode ridden|ring rang rung|rise rose risen|run ran|say said says|see saw seen
seek sought|sell sold|send sent|sew sewn|shake shook shaken|shave shaven|shear shorn|shine shone|shoot shot|show shown
shrink shrank shrunk|sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|smell smelt|sow sown
speak spoke spoken|speed sped|spell spelt|spend spent|spill spilt|spin spun|spit spat|spoil spoilt
spring sprang sprung|stand stood|steal stole stolen|stick stuck|sting stung|stink stank stunk|strike struck stricken
string strung|strive strove striven|swear swore sworn|sweep swept|swell swollen|swim swam swum|swing swung
take took taken|teach taught|tear tore torn|tell told|think thought|throw threw thrown|tread trod trodden
undergo underwent undergone|understand understood|undertake undertook undertaken|undo undid undone|uphold upheld|upset
wake woke woken|wear wore worn|weave wove woven|weep wept|win won|wind wound|withdraw withdrew withdrawn
withstand withstood|wring wrung|write wrote written|rewrite rewrote rewritten|rebuild rebuilt|redo redid redone
resend resent|reset|override overrode overridden|overwrite overwrote overwritten|foresee foresaw foreseen
mislead misled|misunderstand misunderstood|oversee oversaw overseen|outgrow outgrew outgrown|rerun reran
retake retook retaken|retell retold|unwind unwound|be been being am is are was were|can could|will would
"""
"""A line or a bar apart: the verb, then its forms."""

NOUNS = """
child children|man men|woman women|person people|foot feet|tooth teeth|goose geese|mouse mice|louse lice|ox oxen
wife wives|life lives|knife knives|leaf leaves|shelf shelves|half halves|wolf wolves|loaf loaves|thief thieves
calf calves|elf elves|self selves|scarf scarves|hoof hooves|criterion criteria|phenomenon phenomena|index indices
vertex vertices|matrix matrices|appendix appendices|analysis analyses|basis bases|crisis crises|thesis theses
hypothesis hypotheses|diagnosis diagnoses|axis axes|medium media|datum data|curriculum curricula|bacterium bacteria
cactus cacti|fungus fungi|stimulus stimuli|alumnus alumni|radius radii|grandchild grandchildren|fireman firemen
policeman policemen|salesman salesmen|businessman businessmen|freshman freshmen|gentleman gentlemen
fisherman fishermen|businesswoman businesswomen|stepchild stepchildren|housewife housewives|bookshelf bookshelves
himself|themselves
"""

OTHERS = """
good better best|bad worse worst|mom mum mommy mummy|center centre|theater theatre|meter metre|liter litre|fiber fibre
caliber calibre|somber sombre|kilometer kilometre|centimeter centimetre|gray grey|program programme|aluminum aluminium
jewelry jewellery|pajamas pyjamas|skeptical sceptical|plow plough|mustache moustache|license licence|practice practise
pediatric paediatric|airplane aeroplane|maneuver manoeuvre|catalog catalogue|dialog dialogue|analog analogue
judgment judgement
"""

AMBIGUOUS = """
bore bound bit broke drew fell felt found ground hung laid led left lent lit lives leaves lost meant rose sank saw
shot slept spat spoke stole stuck thought tore wound wove won fed axes bases media data bent dug better best people
"""
"""Forms that are words of their own: they count as both."""


SHORTEST = 5
"""Shorter stems are left as they are."""
BEFORE_OUR = 3


@cache
def _bases() -> dict[str, str]:
    lines = re.split(r"[|\n]", VERBS + NOUNS + OTHERS)
    return {form: words[0] for line in lines if (words := line.split()) for form in words[1:]}


@cache
def _ambiguous() -> frozenset[str]:
    return frozenset(AMBIGUOUS.split())


def bases(word: str) -> tuple[str, ...]:
    """What a form belongs to: the base of an irregular one, the word itself otherwise; both where both are meant."""
    base = _bases().get(word)
    if base is None:
        return (word,)
    return (word, base) if word in _ambiguous() else (base,)


def spelling(stem: str) -> str:
    """One spelling of a stem for both sides of the Atlantic: organis and organiz, colour and color, travell and travel."""
    if len(stem) < SHORTEST:
        return stem
    if stem.endswith(("is", "ys")):
        stem = stem[:-1] + "z"
    elif stem.endswith("ll") and len(stem) > SHORTEST:
        stem = stem[:-1]
    elif stem.endswith("enc"):
        stem = stem[:-1] + "s"
    return stem.replace("our", "or") if "our" in stem[BEFORE_OUR:] else stem
