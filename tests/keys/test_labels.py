from __future__ import annotations

from itertools import permutations

from keys.labels import Label


def test_no_label_is_the_beginning_of_another() -> None:
    assert not any(second.value.startswith(first.value) for first, second in permutations(Label, 2))


def test_labels_are_distinct_ascii_with_product_and_version() -> None:
    # An enum makes members of equal value aliases of one: count names, not members.
    assert len(Label.__members__) == len({label.value for label in Label})
    for label in Label:
        text = label.value.decode("ascii")
        assert text.isprintable()
        assert text.startswith("veilcam ")
        assert text.endswith(" v1")


def test_published_labels_have_not_changed() -> None:
    assert {label.name: label.value for label in Label} == {
        "CAMERA_ID": b"veilcam camera id v1",
        "RECIPIENT_ID": b"veilcam recipient id v1",
        "EPOCH_WRAP": b"veilcam epoch wrap v1",
        "SEGMENT_KEY": b"veilcam segment key v1",
        "SEALED_LAYER": b"veilcam sealed layer v1",
        "PIXELS_LAYER": b"veilcam pixels layer v1",
        "SEALED_CHUNK": b"veilcam sealed chunk v1",
        "SEGMENT_SIGNATURE": b"veilcam segment signature v1",
        "UNIT_DIGEST": b"veilcam access unit v1",
        "CHUNK_DIGEST": b"veilcam sealed chunks v1",
        "PARAMETER_SETS": b"veilcam parameter sets v1",
        "IDENTITY_FILE": b"veilcam identity file v1",
        "SEALED_REGION": b"veilcam sealed region v1",
        "SIGNER_ID": b"veilcam signer id v1",
        "SIGNER_FILE": b"veilcam signer file v1",
        "GRANT_APPROVAL": b"veilcam grant approval v1",
        "GRANT_ISSUE": b"veilcam grant issue v1",
        "GRANT_WRAP": b"veilcam grant wrap v1",
        "GRANT_PAYLOAD": b"veilcam grant payload v1",
        "GRANT_REVOCATION": b"veilcam grant revocation v1",
        "LEDGER_ENTRY": b"veilcam ledger entry v1",
        "BACKUP_FILE": b"veilcam backup file v1",
        "DESTRUCTION_TEST": b"veilcam destruction test v1",
        "SHARE_FILE": b"veilcam share file v1",
        "SHARE_COMMITMENT": b"veilcam share commitment v1",
        "OPENING_REQUEST": b"veilcam opening request v1",
        "SHARE_APPROVAL": b"veilcam share approval v1",
        "STREAM_END": b"veilcam end of stream v1",
    }
