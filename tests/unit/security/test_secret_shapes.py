"""What looks like a secret goes, what only resembles one stays, and time grows with the text."""

import base64
import json
import random
import string
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from melete.security.redact import REACH, SLICE, Redactor, without_shapes

DICE = random.Random(11)


def letters(count: int, of: str = string.ascii_letters + string.digits) -> str:
    """Random letters that hold at least one digit."""
    return "".join(DICE.choice(of) for _ in range(count - 1)) + DICE.choice(string.digits)


HEX = "0123456789abcdef"
VALUE = letters(24)
TOKENS = [
    f"ghp_{letters(36)}", f"github_pat_{letters(82)}", f"glpat-{letters(20)}", f"sk-ant-api03-{letters(90)}",
    f"sk-proj-{letters(60)}", f"xoxb-{letters(11, string.digits)}-{letters(24)}", f"AKIA{letters(16, 'ABCDEFGH234567')[:15]}7",
    f"AIza{letters(35)}", f"npm_{letters(36)}", f"pypi-AgE{letters(80)}", f"hf_{letters(34)}", f"sk_live_{letters(24)}",
    f"{letters(14)}.atlasv1.{letters(64)}",
    f"shpat_{letters(32, HEX)}", f"dop_v1_{letters(64, HEX)}", f"SG.{letters(22)}.{letters(43)}", f"hvs.{letters(30)}",
    f"ey{letters(20)}.ey{letters(40)}.{letters(43)}", f"SK{letters(32, HEX)}", f"PMAK-{letters(24, HEX)}-{letters(34, HEX)}",
]  # fmt: skip
ROUND = [
    "{}",
    "use {} please",
    "export A={}",
    '{{"a": "{}", "b": 1}}',
    "https://h.test/?q={}&x=1",
    "line\n{}\nline",
    "a\\n{}\\nb",
]
NAMED = [
    "DB_PASSWORD={}", 'export API_KEY="{}"', '{{"client_secret": "{}", "region": "x"}}', "  access_token: {}", "--password {}",
    "--token={}", "apiKey: '{}',", 'password: str = "{}"', "'secret' => '{}'", "<password>{}</password>",
    '{{\\"token\\": \\"{}\\"}}',
    "Authorization: Bearer {}", '-H "X-Api-Key: {}"', "postgres://app:{}@db.test:5432/x", "my api key is {} ok",
    "curl -u me:{} h.test",
    "?access_token={}&page=2", "machine h.test login me password {}", "smtp_pass = {}", "PRIVATE_KEY={}",
]  # fmt: skip
HARMLESS = [
    "commit 3f786850e387550fdab836ed7e6dc881de23001b", "sha256:" + letters(64, HEX), "id=2c1f6b1e-8f5e-4c1b-9d57-0a4f9f1f6a77",
    '"integrity": "sha512-' + base64.b64encode(bytes(range(64))).decode() + '"', "API_KEY=your-api-key-here", "TOKEN=${TOKEN}",
    "password: <password>", "API_KEY=xxxxxxxxxxxxxxxx", "token = secrets.token_hex(16)", "key = os.environ['API_KEY']",
    "def redact(secret: str) -> str:", "tokenizer = AutoTokenizer.from_pretrained('x')", "primary_key: users.id2b3c4d5",
    "max_tokens: 128000", "next_page_token=a1b2c3d4e5f6a7b8", "public_key = a1b2c3d4e5f6a7b8c9d0",
    "the secret of good bread is time",
    "password_file: /run/secrets/db1a2b3", "postgres://user:password@localhost/db", "git clone https://h.test/a/b.git",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "AKIAIOSFODNN7EXAMPLE", "sk-your-key-here",
    "mkdir -p build/2024a1b2", "authorization = self.headers.get('x')", "pk_live_" + letters(24),
]  # fmt: skip


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token[:6])
def test_tokens_go_wherever_they_stand(token: str) -> None:
    for form in ROUND:
        assert token not in without_shapes(form.format(token)), form
        assert token not in without_shapes(json.dumps(form.format(token))), form


@pytest.mark.parametrize("form", NAMED)
def test_values_go_whose_name_says_secret(form: str) -> None:
    assert VALUE not in without_shapes(form.format(VALUE))
    assert without_shapes(form.format(VALUE)).startswith(form.split("{}")[0][:3].replace("{{", "{"))


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    assert without_shapes(text) is text


def test_a_private_key_goes_whole_also_in_json_and_when_it_is_cut_off() -> None:
    body = "\n".join(letters(64) for _ in range(5))
    key = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n"
    numbered = "\n".join(f"{number}|{line}" for number, line in enumerate(key.split("\n"), 1))
    found = "\n".join(f"k_1.pem:{number}:{line}" for number, line in enumerate(key.split("\n"), 1))
    for text in (
        key,
        json.dumps({"key": key}),
        key[:200],
        numbered,
        numbered[:200],
        json.dumps(numbered),
        found,
        found[:300],
    ):
        assert not any(line[:40] in without_shapes(text) for line in body.split("\n"))
    assert without_shapes(f"a {key} b").endswith("-----END OPENSSH PRIVATE KEY-----\n b")


def test_json_stays_json() -> None:
    given_ = json.dumps({"env": f'TOKEN="{VALUE}"\nNEXT=1', "password": VALUE, "list": [f"ghp_{letters(36)}"]})
    found = json.loads(without_shapes(given_))
    assert found["password"] == "[redacted:password]"
    assert "NEXT=1" in found["env"]


def test_shapes_can_be_left_to_others() -> None:
    text = f"password={VALUE}"
    assert Redactor({}, shapes=False)(text) is text
    assert Redactor({})(text) == "password=[redacted:password]"


PIECES = st.sampled_from([
    "password", "token=", "api_key: ", "://", "@", "'", '"', "\\", "\n", " ", "[redacted:", "]", "ghp_",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    VALUE, TOKENS[0], "Authorization: Bearer ",
    "-u me:", "=", ":", ">", ",", "(", "\u0130", "é", "a-1", "%",
])  # fmt: skip


@settings(max_examples=400)
@given(st.lists(PIECES | st.text(max_size=6), max_size=14).map("".join))
def test_what_came_out_is_left_alone(text: str) -> None:
    once = without_shapes(text)
    assert without_shapes(once) == once


@pytest.mark.parametrize("piece", ["sk-", "sk-ant-", "ey-", "xoxb-1-", "sk-ant- ", "SG.a=", "~1", "a-1"])
def test_text_made_to_be_slow_is_read_all_the_same(piece: str) -> None:
    assert without_shapes(piece * (500_000 // len(piece)) + " " + TOKENS[0]).endswith(" [redacted:github]")


def test_a_token_is_seen_wherever_the_text_is_cut_for_the_search() -> None:
    for at in range(SLICE - REACH - 60, SLICE + 30, 61):
        assert TOKENS[0] not in without_shapes(
            "a-1" * (at // 3) + "-" * (at % 3 + 1) + TOKENS[0] + "-" + "b" * 2 * REACH
        )


@pytest.mark.parametrize(
    "piece",
    [
        "key ",
        "key=",
        "a",
        "a-",
        "://",
        "://u:",
        "-----BEGIN PRIVATE KEY-----\n",
        "token token=",
        "ey.",
        "password='",
        "-u a:b ",
    ],
)
def test_work_grows_with_the_text_and_not_faster(piece: str) -> None:
    def steps(count: int) -> int:
        seen = 0

        def count_one(*_: object) -> None:
            nonlocal seen
            seen += 1

        sys.setprofile(count_one)
        try:
            without_shapes(piece * count)
        finally:
            sys.setprofile(None)
        return seen

    assert steps(2_000) <= 2.5 * steps(1_000) + 200


def test_what_somebody_typed_and_public_names_stay() -> None:
    for text in (
        "see glpat-aaaaaBcd55555xYzq",
        "publicKeyToken=b77a5c561934e089, Culture=neutral",
        "0192f3a4-5b6c-7d8e-9f01-23456789abcd",
    ):
        assert without_shapes(text) == text


def test_what_begins_with_a_uuid_is_seen_all_the_same() -> None:
    one, other = "0192f3a4-5b6c-7d8e-9f01-23456789abcd", "8f14e45f-ceea-467f-a8d2-1b6e9c0d5a73"
    hook = (
        f"https://x.webhook.office.com/webhookb2/{one}@{other}/IncomingWebhook/5f2a9c81d07e46b3a1f8c2e9d4b6075a/{one}"
    )
    assert "[redacted:" in without_shapes(hook)


def test_what_holds_nothing_but_hexadecimal_behind_its_prefix_is_seen() -> None:
    assert without_shapes(f"v1.0-{'0f3a9b1c' * 3}-{'4e8d2c7b6a' * 12}") == "[redacted:cloudflare]"
