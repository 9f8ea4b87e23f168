"""Checks a whole archive: every file there, unchanged, and no offset missing or twice."""

from pathlib import Path

from tidegate.events.archive import STRAY, unlisted
from tidegate.events.archive_manifest import ArchivedFile, Manifest, assert_whole
from tidegate.events.archive_parquet import read_group
from tidegate.events.errors import LogCorrupt, LogUnavailable


def verify(folder: Path) -> list[str]:
    """Everything that is wrong with an archive, one sentence each; empty when all is well.

    Reads every byte. Raises LogCorrupt only when the manifest itself cannot be read.
    """
    manifest = Manifest(folder)
    faults: list[str] = []
    previous: ArchivedFile | None = None
    for file in manifest.all_files():
        try:
            assert_whole(folder, file)
            read_group(folder / file.path, file.first, file)
        except (LogCorrupt, LogUnavailable) as error:
            faults.append(str(error))
        if previous is not None and previous.where == file.where and previous.end != file.start:
            faults.append(
                f"{folder / file.path}: offsets {previous.end} to {file.start - 1} before it are missing"
            )
        previous = file
    faults += [f"{path}: not listed in the manifest" for path in unlisted(folder, manifest)]
    faults += [f"{path}: overlaps listed files and was set aside" for path in folder.rglob("*" + STRAY)]
    return faults
