"""Keys and scopes at the gate: who gets in, who does not, what they are told, and what is written down about it."""

import asyncio
import re
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.routing import compile_path
from tests.unit.api.gated import OWN, Answer, Gated, gated

from melete.app.key_file import KeyFile
from melete.surfaces.api.audit import LINES
from melete.surfaces.api.gate import GUESSES
from melete.surfaces.api.routes import ROUTES

WRONG = "c157a79031e1c40f85931829bc5fc552"
SECOND = "f2ca1bb6c7e907d06dafe4687e579fce"


def bearer(key: str) -> str:
    return f"Authorization: Bearer {key}"


def test_a_key_is_needed_once_there_is_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            without = await server.ask("/who")
            assert (without.status, without.code) == (401, "missing_api_key")
            assert without.one("www-authenticate") == 'Bearer realm="melete"'
            wrong = await server.ask("/who", bearer(WRONG))
            assert (wrong.status, wrong.code) == (401, "invalid_api_key")
            assert 'error="invalid_token"' in wrong.one("www-authenticate")
            assert wrong.json["error"].keys() == {"message", "type", "code", "param"}
            assert wrong.json["error"]["type"] == "authentication_error"
            assert WRONG not in wrong.body.decode()
            right = await server.ask("/who", bearer(OWN))
            assert (right.status, right.json) == (200, {"name": "", "owner": "", "scopes": ["admin"]})

    asyncio.run(main())


def test_a_named_key_is_itself_and_may_do_what_its_scopes_say(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            key = server.add("webui", "chat", "jobs")
            assert (await server.ask("/who", bearer(key))).json["owner"] == "key:webui"
            for path, status in (("/things/1", 200), ("/jobs", 200), ("/admin", 403), ("/open", 200), ("/who", 200)):
                assert (await server.ask(path, bearer(key))).status == status, path
            lacking = await server.ask("/admin", bearer(key))
            assert lacking.code == "insufficient_scope"
            assert 'scope="admin"' in lacking.one("www-authenticate")
            assert "--scope admin" in lacking.json["error"]["message"]
            admin = server.add("root", "admin")
            assert (await server.ask("/admin", bearer(admin))).json["owner"] == "key:root"

    asyncio.run(main())


def test_what_becomes_of_a_key_counts_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            file, now = KeyFile(server.home), server.server.app.clock.now()
            first = server.add("webui")
            assert (await server.ask("/who", bearer(first))).status == 200
            second = file.rotate("webui", now=now, grace=timedelta(hours=1))
            assert [(await server.ask("/who", bearer(key))).status for key in (first, second)] == [200, 200]
            file.remove("webui")
            assert [(await server.ask("/who", bearer(key))).status for key in (first, second)] == [401, 401]
            ended = server.add("short", expires=now + timedelta(microseconds=1))
            gone = await server.ask("/who", bearer(ended))
            assert (gone.status, "has expired" in gone.json["error"]["message"]) == (401, True)
            assert (await server.ask("/who", bearer(OWN))).status == 200

    asyncio.run(main())


def test_a_removed_key_opens_nothing_even_where_no_key_is_needed(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path) as server:
            key = server.add("webui")
            KeyFile(server.home).remove("webui")
            assert (await server.ask("/who", bearer(key))).status == 401
        async with gated(tmp_path) as server:
            assert (await server.ask("/who")).json["scopes"] == ["admin"]
            assert (await server.ask("/who", bearer(key))).status == 401

    asyncio.run(main())


OTHER_FORMS = (
    "Authorization: {key}", "Authorization: Basic {key}", "Authorization: Token {key}", "Authorization: Bearer",
    "Authorization: Bearer ", "Authorization: Bearer {key}, Bearer {key}", "Authorization: Bearer {key} x",
    "Authorization: Bearer\t{key}", "Authorization: Bearer={key}", "Authorization: Bearer {key}\xff",
    "Authorization: Bearer \xe4\xf6\xfc", "Authorization: Bearer " + "x" * 20_000, "Authorization: Bearer {key}" + "x" * 2_000,
    "Proxy-Authorization: Bearer {key}", "X-Api-Key: {key}", "Api-Key: {key}", "Cookie: Authorization=Bearer {key}",
    "X-Authorization: Bearer {key}",
)  # fmt: skip


def test_a_key_counts_in_one_form_only(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            for header in OTHER_FORMS:
                found = await server.ask("/who", header.format(key=OWN))
                assert found.status == 401, header
                assert OWN not in found.body.decode()
            assert OWN.encode() not in (server.home.root / "logs" / "audit.log").read_bytes()

    asyncio.run(main())


def test_the_word_bearer_is_read_in_any_case(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            for header in ("authorization: bearer {}", "AUTHORIZATION: BEARER {}", "Authorization:   Bearer   {}  "):
                assert (await server.ask("/who", header.format(OWN))).status == 200, header

    asyncio.run(main())


def test_a_key_in_the_address_is_refused_and_written_nowhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            named = server.add("webui")
            names = ("key", "api_key", "apikey", "api-key", "access_token", "token", "Authorization", "%6bey")
            for name, key in (*((name, OWN) for name in names), ("anything", named)):
                for headers in ((), (bearer(OWN),)):
                    found = await server.ask(f"/who?a=b&{name}={key}", *headers)
                    assert (found.status, found.code) == (400, "key_in_address"), name
                    assert "Authorization: Bearer" in found.json["error"]["message"]
                    assert key not in found.body.decode()
            log = (server.home.root / "logs" / "audit.log").read_text()
            assert "key_in_address" in log
            for text in (OWN, named, "?"):
                assert text not in log

    asyncio.run(main())


def test_routes_that_are_not_there_are_told_to_keys_only(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            for path, method in (("/nothing", "GET"), ("/act", "GET"), ("/who", "PUT"), ("/open", "POST")):
                assert (await server.ask(path, method=method)).status == 401
            await server.ask("/who", method="A" * 5_000)
            assert server.audited()[-1]["method"] == "other"
            missing = await server.ask("/nothing", bearer(OWN))
            assert (missing.status, missing.code) == (404, "not_found")
            for path, method, allowed in (
                ("/act", "GET", "POST"),
                ("/who", "TRACE", "GET"),
                ("/who", "OPTIONS", "GET"),
                ("/who", "PROPFIND", "GET"),
                ("/things/1", "PATCH", "GET, DELETE"),
                ("/things/all", "DELETE", "GET"),
                ("/ticks", "HEAD", "GET"),
            ):
                wrong = await server.ask(path, bearer(OWN), method=method)
                assert (wrong.status, wrong.one("allow")) == (405, allowed), method
            assert (await server.ask("/who", bearer(OWN), method="HEAD")).status == 200

    asyncio.run(main())


def test_no_route_is_hidden_by_one_before_it() -> None:
    """The gate judges the scope of the route that it finds; the router has to find the same one."""
    for number, route in enumerate(ROUTES):
        path = re.sub(r"\{\w+\}", "x", route.path)
        earlier = [other for other in ROUTES[:number] if other.method == route.method]
        assert not any(compile_path(other.path)[0].match(path) for other in earlier), route.path


def test_a_public_route_needs_no_key_but_takes_no_wrong_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            assert (await server.ask("/open")).json == {"name": "", "owner": "", "scopes": []}
            assert (await server.ask("/open", bearer(OWN))).json["scopes"] == ["admin"]
            assert (await server.ask("/open", bearer(WRONG))).status == 401

    asyncio.run(main())


def test_guessing_is_slowed_down_for_the_address_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=f"{OWN} {SECOND}") as server:
            named = server.add("webui")
            assert (await server.ask("/who", bearer(OWN))).status == 200
            guesses = [(await server.ask("/who", bearer(f"{WRONG}{n}"))).status for n in range(GUESSES + 5)]
            assert guesses[:GUESSES] == [401] * GUESSES
            assert set(guesses[GUESSES:]) == {429}
            for wrong in (WRONG, named[:-1], "mk_"):
                late = await server.ask("/who", bearer(wrong))
                assert (late.status, late.code) == (429, "too_many_wrong_keys")
                assert int(late.one("retry-after")) >= 1
            # A right key of the person that was never used from here is not looked at: guesses must not go on unseen.
            assert (await server.ask("/who", bearer(SECOND))).status == 429
            # Who was known before goes on, so does a key that cannot be guessed, and so does everybody elsewhere.
            assert (await server.ask("/who", bearer(OWN))).status == 200
            assert (await server.ask("/who", bearer(named))).status == 200
            assert (await server.ask("/who", bearer(SECOND), source="127.0.0.2")).status == 200
            assert (await server.ask("/open")).status == 200
            assert (await server.ask("/who")).status == 401

    asyncio.run(main())


def test_a_key_has_its_rate(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN, requests_per_minute=3) as server:
            key = server.add("webui")
            answers = [await server.ask("/who", bearer(key)) for _ in range(4)]
            assert [found.status for found in answers] == [200, 200, 200, 429]
            assert [found.one("x-ratelimit-remaining-requests") for found in answers[:3]] == ["2", "1", "0"]
            assert answers[0].one("x-ratelimit-limit-requests") == "3"
            assert answers[3].code == "too_many_requests"
            assert 1 <= int(answers[3].one("retry-after")) <= 20
            assert (await server.ask("/who", bearer(OWN))).status == 200
            assert (await server.ask("/open", bearer(key))).status == 200

    asyncio.run(main())


def test_a_damaged_key_file_shuts_named_keys_out_and_says_why_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            key = server.add("webui")
            (server.home.root / "state" / "server_keys.json").write_text("{")
            for _ in range(3):
                found = await server.ask("/who", bearer(key))
                assert (found.status, found.code) == (503, "keys_unreadable")
                assert str(tmp_path) not in found.body.decode()
            assert (await server.ask("/who", bearer(OWN))).status == 200
            assert sum("server_keys.json" in line for line in caplog.messages) == 1

    asyncio.run(main())


def summed(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(row["who"], row["method"], row["route"], row["status"], row.get("why", "")) for row in rows]


def test_what_acts_and_what_is_refused_is_written_down(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            key = server.add("webui")
            answers: list[Answer] = [
                await server.ask("/who", bearer(key)),
                await server.ask("/act", bearer(key), method="POST", body=b"what was said"),
                await server.ask("/act", bearer(OWN), method="POST"),
                await server.ask("/things/secret-name", bearer(key), method="DELETE"),
                await server.ask("/things/1", bearer(key)),
                await server.ask("/admin", bearer(key)),
                await server.ask("/refused", bearer(key)),
                await server.ask("/act", method="POST"),
                await server.ask("/private/path", bearer(WRONG)),
                await server.ask("/private/path", bearer(OWN)),
            ]
            rows = server.audited()
            assert summed(rows) == [
                ("key:webui", "POST", "/act", 200, ""),
                ("person", "POST", "/act", 200, ""),
                ("key:webui", "DELETE", "/things/{id}", 200, ""),
                ("key:webui", "GET", "/admin", 403, "insufficient_scope"),
                ("key:webui", "GET", "/refused", 403, "refused"),
                ("nobody", "POST", "/act", 401, "missing_api_key"),
                ("nobody", "GET", "", 401, "invalid_api_key"),
                ("person", "GET", "", 404, "not_found"),
            ]
            assert [rows[0][name] for name in ("session", "run", "job", "from")] == ["s-1", "r-1", "j-1", "127.0.0.1"]
            assert rows[4]["session"] == "s-9"
            ids = [found.one("x-request-id") for found in answers]
            assert len(set(ids)) == len(ids)
            assert [row["request"] for row in rows] == [ids[n] for n in (1, 2, 3, 5, 6, 7, 8, 9)]
            log = server.home.root / "logs" / "audit.log"
            assert log.stat().st_mode & 0o777 == 0o600
            for text in (key, OWN, WRONG, "what was said", "secret-name", "/private"):
                assert text not in log.read_text()

    asyncio.run(main())


def test_refusals_do_not_wash_out_the_audit_log(tmp_path: Path) -> None:
    async def flood(server: Gated, count: int) -> None:
        for _ in range(count):
            await server.ask("/who")

    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            await flood(server, LINES + 20)
            await server.ask("/act", bearer(OWN), method="POST")
            rows = server.audited()
            assert LINES <= len(rows) - 1 < LINES + 20
            assert (rows[-1]["who"], rows[-1]["skipped"]) == ("person", LINES + 20 - (len(rows) - 1))

    asyncio.run(main())


def test_an_audit_log_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            (server.home.root / "logs").write_text("a file where a folder belongs")
            for _ in range(3):
                assert (await server.ask("/act", bearer(OWN), method="POST")).status == 200
            assert sum("audit" in line for line in caplog.messages) == 1

    asyncio.run(main())


def test_what_is_asked_is_counted_by_its_pattern(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            await server.ask("/things/1", bearer(OWN))
            await server.ask("/things/2", bearer(OWN))
            await server.ask("/what/ever", bearer(OWN))
            text = server.server.metrics.render()[1].decode()
            assert 'melete_http_requests_total{method="GET",route="/things/{id}",status="200"} 2.0' in text
            assert "/what/ever" not in text

    asyncio.run(main())
