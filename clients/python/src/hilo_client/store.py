"""The file of a client that has its leases, and how far each is used (clients/state-file.md)."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import stat
import struct
import time
import uuid
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

SLOT, MAX_NAME = 512, 255
CHUNK = 128 * SLOT  # by which the file grows
MAGIC, VERSION = b"hilo\x1astr", 1
HEADER = struct.Struct("=16s16sQQQQIIII")  # from byte 16 on; the holder follows
FREE, ASKED, HELD, RETURNED, IN_LANE = range(5)
# Words of a slot, in units of 8 bytes. The first one is the lane's.
KIND, LEFT, NEXT, EXPIRES, FLOOR, NAME_LENGTH, TOKEN, SIZE, LAST, INCREMENT, COUNT, NAME = (
    *(8, 9, 10, 11, 12, 13),
    *(14, 16, 17, 18, 19, 20),
)
WORD = 2**64 - 1
FOREIGN = "it is no state file of hilo, one of another version, or damaged"
NOT_OURS = "a state file has to be a regular file of this user that no other user can write"
AT_EMPTY_PATH, STATX_BTIME = 0x1000, 0x800


def _signed(word: int) -> int:
    return word - 2**64 if word >> 63 else word


def other_name(holder: str) -> str:
    """The name of a holder whose leases are revoked, by that of the one who does it. They differ: the statement may be late,
    and must not end what its sender, or the next process, has taken since."""
    return holder[:-1] if holder.endswith("+") else holder + "+"


def _uptime() -> int:
    """Microseconds since the machine has started, the same for all processes."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def _birth(file: int) -> int:
    """When a file was made, in nanoseconds; 0: the file system does not tell it."""
    status = ctypes.create_string_buffer(256)
    try:
        failed = ctypes.CDLL(None).statx(file, b"", AT_EMPTY_PATH, STATX_BTIME, status)
    except (AttributeError, OSError):  # a C library that does not know it
        return 0
    known, seconds, nanoseconds = struct.unpack_from("=I76xqI", status)
    return 0 if failed or not known & STATX_BTIME else int(seconds * 10**9 + nanoseconds) & WORD


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a file was used."""

    boot: bytes
    machine: bytes
    device: int
    inode: int
    birth: int  # an inode number is used again when a file is removed; 0: not known

    @classmethod
    def of(cls, number: int) -> Place:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = uuid.UUID(file.read().strip()).bytes
        machine = bytes(16)
        with contextlib.suppress(OSError, ValueError), open("/etc/machine-id") as file:
            machine = uuid.UUID(file.read().strip()).bytes
        status = os.fstat(number)
        return cls(boot, machine, status.st_dev, status.st_ino, _birth(number))

    def is_same_file(self, other: Place) -> bool:
        """Whether both are the same file of the same machine, at whatever time."""
        return self.birth != 0 and self == replace(other, boot=self.boot)


@dataclass(frozen=True, slots=True)
class Left:
    """A lease that the process before has left. left: of which so many values are left; None: nobody has served it yet.
    next: it only has to be returned, with this."""

    token: uuid.UUID
    name: str
    size: int
    left: int | None
    next: int | None


@dataclass(slots=True, eq=False)
class Record:
    """The record of a lease."""

    store: Store
    number: int
    words: memoryview  # of its slot
    floor: int = 0  # so many values are not served before they are on the disk

    def take(self, left: int) -> None:
        """Values go to a caller: so many are left."""
        if left < self.floor:
            floor = max(0, left - (self.store.sync_every or 0))
            self.set_floor(floor)
            self.store.sync()
            self.floor = floor
        self.words[LEFT] = left

    def set_floor(self, floor: int) -> None:
        """It counts after a sync."""
        self.words[FLOOR] = self.checksum() << 32 | floor
        self.store.is_unsynced = True

    def checksum(self) -> int:
        return zlib.crc32(self.words[NAME_LENGTH:])

    def durable(self) -> int:
        """How many values are left for sure after a crash of the machine."""
        floor: int = self.words[FLOOR]
        return floor & 0xFFFFFFFF if floor >> 32 == self.checksum() else 0

    def kind(self) -> int:
        return int(self.words[KIND]) & 0xFF

    def is_begun(self) -> bool:
        return self.kind() == HELD and bool(self.words[LEFT] < self.words[COUNT])

    def settle(self, left: int) -> None:
        """So many values are left, and it is in no lane."""
        self.words[LEFT] = min(left, self.words[COUNT])
        self.words[KIND] = HELD

    def ask(self, token: uuid.UUID, name: bytes, size: int) -> None:
        self.words[TOKEN : TOKEN + 2] = memoryview(token.bytes).cast("Q")
        self.words[NAME_LENGTH] = len(name)
        padded = name.ljust(-len(name) % 8 + len(name), b"\0")
        self.words[NAME : NAME + len(padded) // 8] = memoryview(padded).cast("Q")
        self.words[SIZE] = size
        for at in (COUNT, LEFT, EXPIRES, FLOOR):
            self.words[at] = 0
        self.words[KIND] = ASKED

    def hold(self, last: int, increment: int, count: int) -> None:
        """It has come. Nothing of it was served."""
        self.words[KIND] = ASKED
        self.words[LAST], self.words[INCREMENT], self.words[COUNT] = last & WORD, increment & WORD, count
        self.words[FLOOR] = 0
        self.settle(count)

    def held(self) -> tuple[int, int, int]:
        return _signed(self.words[LAST]), _signed(self.words[INCREMENT]), int(self.words[COUNT])

    def expire_in(self, ttl: timedelta | None) -> None:
        self.words[EXPIRES] = _uptime() + ttl // timedelta(microseconds=1) if ttl else 0

    def token(self) -> uuid.UUID:
        return uuid.UUID(bytes=self.words[TOKEN : TOKEN + 2].tobytes())

    def left(self) -> Left | None:
        """What is to be done with it."""
        if (kind := self.kind()) == FREE:
            return None
        name = self.words[NAME:].tobytes()[: min(int(self.words[NAME_LENGTH]), MAX_NAME)]
        left = next = None
        if kind == RETURNED:
            next = _signed(self.words[NEXT])
        elif kind == HELD:
            last, increment, _ = self.held()
            left = int(self.words[LEFT])
            next = None if left else last + increment
        return Left(self.token(), name.decode(errors="replace"), int(self.words[SIZE]), left, next)


class Store:
    """Its lock is that of the client."""

    def __init__(self, path: str, holder: str, sync_every: int | None) -> None:
        """Raises OSError if another process uses the file, or it cannot be written."""
        self.path, self.sync_every = path, sync_every
        self._maps: list[mmap.mmap] = []
        self._views: list[memoryview] = []
        self._records: dict[uuid.UUID, Record] = {}
        self.is_unsynced = False
        self._file = -1
        if sync_every is not None and sync_every < 1:
            raise ValueError(f"sync_every must be 1 at least: {sync_every}")
        self._file = self._lock()
        try:
            self.holder, self.left = self._open(holder)
        except BaseException:
            self.drop()
            raise

    def __del__(self) -> None:
        if self._file >= 0:
            self.drop()

    def _lock(self) -> int:
        """Opens the file, and locks it for as long as it is open."""
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                os.close(file)
                raise OSError(NOT_OURS)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file), os.stat(self.path)):
                    return file
            except BlockingIOError:
                header = self._parse(os.pread(file, SLOT, 0))
                os.close(file)
                process = f", {header[8]}" if header else ""
                raise BlockingIOError(f"another process{process} uses the state file {self.path}") from None
            os.close(file)

    def _open(self, holder: str) -> tuple[str, list[Left]]:
        size, begun = os.fstat(self._file).st_size, os.pread(self._file, SLOT, 0)
        if size < CHUNK and any(begun):
            raise OSError(FOREIGN)
        header = self._parse(begun)
        for at in range(0, size - size % CHUNK, CHUNK):
            self._map(os.pread(self._file, CHUNK, at))
        if not self._maps:
            self._map(bytes(CHUNK))
        self._place = place = Place.of(self._file)
        is_same_file = False
        self._server, self._database, self.revoke, before = 0, 0, False, None
        if header and header[8]:
            before = Place(*header[:5])
            if is_same_file := before.is_same_file(place):
                self._server, self._database, self.revoke = header[5], header[6], bool(header[7])
                holder_before = header[9]
        left = self._take_over(before, place)
        if is_same_file and before != place and not left and not self.revoke:
            self.revoke, holder_before = True, other_name(holder_before)
        if left or self.revoke:
            holder = holder_before
        else:
            self._server = self._database = 0
        self.holder = holder
        self._write_header(os.getpid())
        self._free = [number for number in reversed(range(1, self._count())) if self._record(number).kind() == FREE]
        return holder, left

    @staticmethod
    def _parse(header: bytes) -> tuple[bytes, bytes, int, int, int, int, int, int, int, str] | None:
        """The header of a file; None if it is new."""
        if not any(header):
            return None
        magic, version, checksum = struct.unpack_from("=8sII", header)
        *known, length = HEADER.unpack_from(header, 16)
        if magic != MAGIC or version != VERSION or zlib.crc32(header[16:]) != checksum or length > MAX_NAME:
            raise OSError(FOREIGN)
        return (*known, header[96 : 96 + length].decode())

    def _write_header(self, process: int) -> None:
        place, holder = self._place, self.holder.encode()
        if len(holder) > MAX_NAME:
            raise OSError("the name of the client is too long")
        rest = HEADER.pack(
            *(place.boot, place.machine, place.device, place.inode, place.birth),
            *(self._server, self._database, self.revoke, process, len(holder)),
        )
        rest = (rest + holder).ljust(SLOT - 16, b"\0")
        header = struct.pack("=8sII", MAGIC, VERSION, zlib.crc32(rest)) + rest
        self._views[0][: SLOT // 8] = memoryview(header).cast("Q")
        self.is_unsynced = True
        self.sync()

    def _count(self) -> int:
        return len(self._maps) * CHUNK // SLOT

    def _map(self, content: bytes) -> None:
        """Maps the next part of the file. It is written before that, also where it was there, since that may be a hole: a
        disk that is full is an error here, and not a signal later."""
        begin = at = len(self._maps) * CHUNK
        try:
            while content:
                written = os.pwrite(self._file, content, at)
                at, content = at + written, content[written:]
            os.fsync(self._file)
            chunk = mmap.mmap(self._file, CHUNK, offset=begin)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from error
        self._maps.append(chunk)
        self._views.append(memoryview(chunk).cast("Q"))

    def _record(self, number: int) -> Record:
        part, at = divmod(number * SLOT, CHUNK)
        return Record(self, number, self._views[part][at // 8 : (at + SLOT) // 8])

    def sync(self) -> None:
        """Writes all to the disk that has to be there."""
        if self.is_unsynced:
            os.fdatasync(self._file)
            self.is_unsynced = False

    def _resolve(self, record: Record) -> int:
        """How many values are left, wherever that is written."""
        kind = int(record.words[KIND])
        lane, filling = kind >> 8 & 0xFFFFFF, kind >> 32
        if kind & 0xFF == IN_LANE and lane < self._count():
            word = int(self._record(lane).words[0])
            if word >> 32 == filling:
                return word & 0xFFFFFFFF
        return int(record.words[LEFT])

    def _take_over(self, before: Place | None, place: Place) -> list[Left]:
        """Makes what another process has left this one's, as far as that can be."""
        records = [self._record(number) for number in range(1, self._count())]
        is_same_file = before is not None and before.is_same_file(place)
        is_same_start = is_same_file and before == place
        for record in records:
            kind, expires = record.kind(), int(record.words[EXPIRES])
            if kind == FREE:
                continue
            if is_same_start and kind in (HELD, IN_LANE) and not 0 < expires <= _uptime():
                record.settle(self._resolve(record))
            elif is_same_start and kind in (ASKED, RETURNED):
                pass
            elif is_same_file and not is_same_start and kind in (HELD, IN_LANE, RETURNED) and record.durable():
                record.settle(record.durable())
                record.words[EXPIRES] = 0
            else:
                record.words[KIND] = FREE
        for record in records:  # no record names a lane any more
            word = int(record.words[0])
            record.words[0] = ((word >> 32) + 1 & 0xFFFFFFFF) << 32
        for record in records:
            if record.kind() != FREE:
                self._records[record.token()] = record
                if not self.sync_every and record.durable():  # values below it are going to be served
                    record.set_floor(0)
        self.sync()
        # The client asks for the last one first, and that is the one that was in use.
        return [left for record in sorted(records, key=Record.is_begun) if (left := record.left())]

    def meet(self, server: int, database: int) -> None:
        """Raises OSError if the leases are of another server."""
        if (self._server, self._database) != (server, database):
            if self._server and self._records:
                raise OSError(f"the state file {self.path} has leases of another server or database")
            self._server, self._database = server, database
            self._write_header(os.getpid())

    def next(self, token: uuid.UUID) -> int | None:
        """The first value that is left of a lease that the process before had."""
        if not (record := self._records.get(token)) or record.kind() != HELD:
            return None
        last, increment, _ = record.held()
        return last - (int(record.words[LEFT]) - 1) * increment

    def forget(self, token: uuid.UUID) -> bool:
        """A lease did not come. False: the process before had it."""
        if self.next(token) is not None:
            return False
        if (record := self._records.get(token)) and record.kind() != RETURNED:
            self.free(token)
        return True

    def clear(self) -> None:
        """Nothing is to be returned any more. Who has the file next takes another name."""
        for token in list(self._records):
            self.free(token)
        if self.revoke:
            self.note_revoked()

    def note_revoked(self) -> None:
        self.revoke = False
        self._write_header(os.getpid())

    def write_ask(self, token: uuid.UUID, name: str, size: int) -> None:
        """Writes down what is about to be asked for. Raises OSError if the disk is full."""
        if token not in self._records and len(name.encode()) <= MAX_NAME:
            if not self._free:
                before = self._count()
                self._map(bytes(CHUNK))
                self._free += reversed(range(before, self._count()))
            record = self._record(self._free.pop())
            record.ask(token, name.encode(), size)
            self._records[token] = record

    def write_returns(self, returned: Iterable[tuple[uuid.UUID, int]]) -> None:
        """Writes down what is about to be returned: each lease, and its first value that was not used."""
        for token, next in returned:
            if found := self._records.get(token):
                found.words[NEXT] = next & WORD
                found.words[KIND] = RETURNED
                if found.durable():  # the server may have it back before the machine crashes
                    found.set_floor(0)
        self.sync()

    def hold(
        self, token: uuid.UUID, last: int, increment: int, count: int, ttl: timedelta | None
    ) -> tuple[Record | None, int, bool]:
        """A lease has come: its record, how many of its values are left, and whether it was there before. Then sync."""
        if not (record := self._records.get(token)):
            return None, count, False
        is_known = record.kind() == HELD and record.held() == (last, increment, count)
        if not is_known:
            record.hold(last, increment, count)
        record.expire_in(ttl)
        left = int(record.words[LEFT])
        if self.sync_every:
            record.floor = left
            record.set_floor(left)
        return record, left, is_known

    def renew(self, token: uuid.UUID, ttl: timedelta | None) -> None:
        if record := self._records.get(token):
            record.expire_in(ttl)

    def free(self, token: uuid.UUID) -> None:
        """A lease has ended, or did not come."""
        if record := self._records.pop(token, None):
            record.words[KIND] = FREE
            record.words.release()
            self._free.append(record.number)

    def release(self, all_returned: bool) -> None:
        """Lets another process have the file."""
        if self._file < 0:
            return
        if all_returned:
            self.clear()
            self._write_header(0)
        # Whatever still has a part of it mapped.
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self.drop()

    def drop(self) -> None:
        """Lets go of the file, as a child does, whose copies would keep it locked."""
        for record in self._records.values():
            record.words.release()
        self._records.clear()
        for view in self._views:
            with contextlib.suppress(BufferError):
                view.release()
        for chunk in self._maps:
            with contextlib.suppress(BufferError):
                chunk.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
