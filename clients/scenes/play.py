"""Plays the scenes of scenes.json with a client, and says which went as they must. Needs psycopg.

    python3 play.py [--only part-of-a-name] command of the client's program

The server with hilo is that of PGHOST, PGPORT, PGUSER and PGDATABASE, and asks for no password. The section "Scenes" of
README.md says what the program does.
"""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
from server import Server

PATIENCE = 60  # seconds for one answer of the program
EXPLAINED = "slice current standby returned free discarded".split()


class Failed(Exception):
    """The scene has not gone as it must."""


class Program:
    """A running client."""

    def __init__(self, command: list[str], port: int, scene: dict[str, Any]) -> None:
        place = {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGSSLMODE": "disable"}
        limits = [str(scene.get("wait", 30)), str(scene.get("limit", 10))]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command + limits, env=os.environ | place, text=True, **pipes)
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._process.stdout or []:
            self._answers.put(line.rstrip("\n"))
        self._answers.put("ended")

    def ask(self, question: str) -> tuple[str, str]:
        """The first word of the answer, and the rest."""
        try:
            if self._process.stdin:
                print(question, file=self._process.stdin, flush=True)
            answer = self._answers.get(timeout=PATIENCE)
        except (queue.Empty, OSError) as error:
            raise Failed(f"{question}: no answer ({error!r})") from error
        first, _, rest = answer.partition(" ")
        return first, rest

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Scene:
    def __init__(self, scene: dict[str, Any], command: list[str]) -> None:
        self._scene, self._command, self._name = scene, command, f"{scene['scene']} {os.getpid()}"
        self._server, self._seen = Server(), list[int]()
        self._sessions = psycopg.connect(autocommit=True)
        self._sql("SELECT hilo_create({name}, block_size => 1000)")
        self._program = Program(command, self._server.port, scene)

    def _sql(self, query: str) -> list[Any]:
        composed = psycopg.sql.SQL(query).format(name=psycopg.sql.Literal(self._name))
        return self._sessions.execute(composed).fetchall()

    def play(self) -> None:
        try:
            for step in self._scene["steps"]:
                try:
                    self._step(*step.split(" ", 1))
                except Failed as why:
                    raise Failed(f"{step}: {why}") from None
            self._check()
        finally:
            self._program.kill()

    def _step(self, verb: str, rest: str = "") -> None:
        match verb:
            case "draw" if rest.isdigit():
                for _ in range(int(rest)):
                    self._draw()
            case "draw":
                self._draw_until(rest)
            case "trouble":
                self._server.trouble(rest)
            case "calm":
                self._server.trouble("")
            case "sql":
                self._sql(rest)
            case "unknown":
                self._must_fail(self._program.ask("next unknown"), rest)
            case "close" if rest:
                self._must_fail(self._program.ask("close"), rest)
            case "close":
                self._must_be(self._program.ask("close"), "closed")
                if self._sql("SELECT lease FROM hilo_leases WHERE name = {name}"):
                    raise Failed("a lease is still open")
            case "fork":
                answer = self._program.ask(f"fork {self._name}")
                if answer[0] == "value":
                    self._seen.append(int(answer[1]))
            case "race":
                self._seen += map(int, self._must_be(self._program.ask(f"race {self._name}"), "values").split())
            case "another":
                self._draw_elsewhere()
            case _:
                raise Failed("there is no such step")

    def _must_be(self, answer: tuple[str, str], word: str) -> str:
        if answer[0] != word:
            raise Failed(" ".join(answer))
        return answer[1]

    def _must_fail(self, answer: tuple[str, str], how: str) -> None:
        if not f"{' '.join(answer)} ".startswith(f"error {how.split()[-1]} "):
            raise Failed(" ".join(answer))

    def _draw(self) -> None:
        self._seen.append(int(self._must_be(self._program.ask(f"next {self._name}"), "value")))

    def _draw_until(self, end: str) -> None:
        """on: until the trouble has come. through: past errors, until it is over. fails: until this error. past: this error, until
        a value."""
        until, after = time.monotonic() + PATIENCE, 0
        while time.monotonic() < until:
            word, rest = answer = self._program.ask(f"next {self._name}")
            if word == "value":
                self._seen.append(int(rest))
            if end.startswith("fails") and word != "value":
                return self._must_fail(answer, end)
            if end.startswith("past") and word != "value":
                self._must_fail(answer, end)
            elif end.startswith("past"):
                return None
            if end == "on":
                self._must_be(answer, "value")
            after += self._server.came.is_set() and word == "value"
            if after > {"on": 0, "through": 30}.get(end, math.inf):
                return None
        raise Failed("it goes on for ever")

    def _draw_elsewhere(self) -> None:
        """A second program of the same kind, under a name of its own."""
        other = Program(self._command, self._server.port, self._scene)
        try:
            self._seen.append(int(self._must_be(other.ask(f"next {self._name}"), "value")))
            [(holders,)] = self._sql("SELECT count(DISTINCT holder) FROM hilo_leases WHERE name = {name}")
            if holders != 2:
                raise Failed(f"{holders} names of holders")
            self._must_be(other.ask("close"), "closed")
        finally:
            other.kill()

    def _check(self) -> None:
        """Nothing came twice, whoever drew, and what is missing is explained."""
        steps, lost = self._scene["steps"], list(self._scene.get("lost", []))
        if any(step.startswith("trouble") for step in steps) and not self._server.came.is_set() and "calm" not in steps:
            raise Failed("the trouble never came")
        if steps[-1].startswith("close fails"):
            self._sql("SELECT hilo_lease_revoke(lease) FROM hilo_leases WHERE name = {name}")
            lost.append("revoked")
        self._seen += [value for (value,) in self._sql("SELECT hilo_nextval({name}) FROM generate_series(1, 200)")]
        if twice := {value for value in self._seen if self._seen.count(value) > 1}:
            raise Failed(f"came twice: {sorted(twice)}")
        self._sessions.execute("CREATE TEMP TABLE seen (id bigint)")
        self._sessions.execute("INSERT INTO seen SELECT unnest(%s::bigint[])", [self._seen])
        gaps = self._sql("SELECT first, last, reason FROM hilo_find_gaps({name}, 'seen', 'id')")
        if unexplained := [gap for gap in gaps if gap[2] not in EXPLAINED + lost]:
            raise Failed(f"missing: {unexplained}")
        discarded = self._sql("SELECT first, last FROM hilo_gaps WHERE name = {name} AND reason = 'discarded'")
        if served := [value for value in self._seen if any(first <= value <= last for first, last in discarded)]:
            raise Failed(f"served, and not committed: {served}")


def play(scene: dict[str, Any], command: list[str]) -> bool:
    try:
        Scene(scene, command).play()
    except Exception as why:
        sys.stdout.write(f"FAILED  {scene['scene']}: {why!r}\n")
        return False
    sys.stdout.write(f"ok  {scene['scene']}\n")
    return True


def main(arguments: list[str]) -> None:
    part = arguments[1] if arguments[0] == "--only" else ""
    command = arguments[2:] if part else arguments
    scenes = json.loads((Path(__file__).parent / "scenes.json").read_text())
    with ThreadPoolExecutor(6) as threads:
        went = list(threads.map(lambda scene: play(scene, command), [one for one in scenes if part in one["scene"]]))
    print(f"{sum(went)} of {len(went)} scenes are as they must be")
    sys.exit(0 if all(went) and went else 1)


main(sys.argv[1:])
