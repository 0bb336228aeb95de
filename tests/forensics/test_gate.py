from __future__ import annotations

from fractions import Fraction

from codec.packets import SealedPacket, SealedStream, StreamKind
from forensics.gate import PacketGate

VIDEO = SealedStream(0, StreamKind.VIDEO, "h264", Fraction(1, 1000))
SOUND = SealedStream(1, StreamKind.AUDIO, "aac", Fraction(1, 1000))


def _packets(plan: str) -> list[SealedPacket]:
    """K and P are pictures, a is sound; the data is the place in the plan."""
    return [
        SealedPacket(1 if kind == "a" else 0, kind != "P", None, None, None, str(place).encode())
        for place, kind in enumerate(plan)
    ]


def _passed(gate: PacketGate, plan: str, num_intact: int | None = None, *, is_complete: bool = True) -> str:
    intact = len(plan) if num_intact is None else num_intact
    passed = gate.pass_segment(_packets(plan), intact, is_complete=is_complete)
    return "".join(plan[int(packet.data)] for packet in passed)


def test_nothing_is_held_back_without_loss() -> None:
    gate = PacketGate([VIDEO, SOUND])
    assert _passed(gate, "PPaKP") == "PPaKP"
    assert gate.num_held_back == 0


def test_after_a_loss_pictures_wait_for_a_key_frame_and_sound_does_not() -> None:
    gate = PacketGate([VIDEO, SOUND])
    gate.lose()
    assert _passed(gate, "PaPKPaP") == "aKPaP"
    assert gate.num_held_back == 2


def test_behind_a_hole_only_what_stands_alone_passes() -> None:
    gate = PacketGate([VIDEO, SOUND])
    assert _passed(gate, "KPaPaKP", 2, is_complete=False) == "KPaaK"
    assert _passed(gate, "PaP") == "a"
    assert _passed(gate, "KP") == "KP"


def test_a_segment_without_its_end_closes_the_gate() -> None:
    gate = PacketGate([VIDEO])
    assert _passed(gate, "KPP", is_complete=False) == "KPP"
    assert _passed(gate, "PK") == "K"
