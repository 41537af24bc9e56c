"""Look at and control a Home Assistant over its REST interface. Standard library only; the token is read from the environment.

ha.py find WORD                                   entities whose identifier or name holds the word
ha.py state ENTITY
ha.py call DOMAIN.SERVICE ENTITY [KEY=VALUE …]    says what it would send
ha.py call --yes DOMAIN.SERVICE ENTITY [KEY=VALUE …]
ha.py history ENTITY HOURS
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from urllib.parse import quote

SECONDS = 15
SETTLES = 5


def ask(path, body=None):
    """The answer of one request, as a value."""
    request = urllib.request.Request(
        os.environ["HASS_URL"].rstrip("/") + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {os.environ['HASS_TOKEN']}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        why = {
            401: "the token is wrong or was taken back",
            404: "there is no such entity or service",
            400: "the service does not know these values",
        }
        sys.exit(f"{path}: status {error.code}: {why.get(error.code, error.reason)}")
    except urllib.error.URLError as error:
        sys.exit(f"{os.environ['HASS_URL']} cannot be reached: {error.reason}")


def line(state):
    """An entity in one line."""
    unit = state["attributes"].get("unit_of_measurement", "")
    return f"{state['entity_id']} = {state['state']}{unit and ' ' + unit}   ({state['attributes'].get('friendly_name', '')}, since {state['last_changed'][:19]})"


def find(word):
    """Print what holds the word."""
    word = word.lower()
    for state in sorted(ask("/api/states"), key=lambda one: one["entity_id"]):
        if word in state["entity_id"].lower() or word in str(state["attributes"].get("friendly_name", "")).lower():
            print(line(state))


def call(service, entity, *given, sure):
    """Call a service on one entity and print what became of it."""
    domain, _, name = service.partition(".")
    data = {"entity_id": entity}
    for one in given:
        key, _, value = one.partition("=")
        try:
            data[key] = json.loads(value)
        except ValueError:
            data[key] = value
    before = ask(f"/api/states/{quote(entity)}")
    print("before:", line(before))
    if not sure:
        print(f"would send to {service}: {json.dumps(data)}   (--yes does it)")
        return
    ask(f"/api/services/{quote(domain)}/{quote(name)}", data)
    for _ in range(SETTLES):
        after = ask(f"/api/states/{quote(entity)}")
        if (after["state"], after["attributes"]) != (before["state"], before["attributes"]):
            break
        time.sleep(1)
    print("after: ", line(after))
    if (after["state"], after["attributes"]) == (before["state"], before["attributes"]):
        sys.exit("nothing changed: it was so already, or the device does not answer")


def history(entity, hours):
    """Print the changes of some hours."""
    start = (datetime.now(timezone.utc) - timedelta(hours=float(hours))).isoformat()
    for series in ask(f"/api/history/period/{quote(start)}?filter_entity_id={quote(entity)}&minimal_response"):
        for state in series:
            print(state.get("last_changed", "")[:19], state["state"])


def main(arguments):
    """Do what the command line says."""
    if absent := [name for name in ("HASS_URL", "HASS_TOKEN") if name not in os.environ]:
        sys.exit(f"not set: {', '.join(absent)}")
    sure = "--yes" in arguments
    do, *rest = [one for one in arguments if one != "--yes"] or [""]
    if do == "find" and len(rest) == 1:
        find(*rest)
    elif do == "state" and len(rest) == 1:
        state = ask(f"/api/states/{quote(rest[0])}")
        print(line(state), json.dumps(state["attributes"], indent=1, ensure_ascii=False), sep="\n")
    elif do == "call" and len(rest) > 1:
        call(*rest, sure=sure)
    elif do == "history" and len(rest) == 2:
        history(*rest)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
