"""The keyed rotations of the pixel path."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from codec.rotations import Rotations
from keys.schedule import SegmentKeys
from keys.secret import SecretBytes

_SECRET = hashlib.sha256(b"rotations").digest()


def rotations(secret: bytes = _SECRET, channels: int = 12, rows: int = 9, columns: int = 16) -> Rotations:
    return Rotations(SegmentKeys(SecretBytes(secret)).pixel_stream(), channels, rows, columns)


def latents(channels: int = 12, rows: int = 9, columns: int = 16) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(channels, rows, columns)).astype(np.float32)


def test_key_stream_is_aes_256_ctr_under_the_pixels_label() -> None:
    key = HKDF(SHA256(), 32, salt=b"", info=b"veilcam pixels layer v1").derive(_SECRET)
    expected = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(100))
    stream = SegmentKeys(SecretBytes(_SECRET)).pixel_stream()
    assert stream.read(37) + stream.read(63) == expected


def test_turning_back_undoes_turning() -> None:
    z, turned = latents(), rotations().turn(latents())
    np.testing.assert_allclose(rotations().turn_back(turned), z, atol=1e-5)


def test_lengths_survive_so_codec_noise_is_not_amplified() -> None:
    z = latents()
    np.testing.assert_allclose(
        np.linalg.norm(rotations().turn(z), axis=0), np.linalg.norm(z, axis=0), rtol=1e-5
    )


@pytest.mark.parametrize("bit", [0, 7, 100, 255])
def test_one_wrong_bit_of_the_key_gives_unrelated_latents(bit: int) -> None:
    wrong = bytearray(_SECRET)
    wrong[bit // 8] ^= 1 << bit % 8
    z = latents(rows=60, columns=60)
    read = rotations(bytes(wrong), rows=60, columns=60).turn_back(rotations(rows=60, columns=60).turn(z))
    # The mean cosine of 3600 unrelated directions has a standard deviation of 1 / sqrt(12 * 3600).
    cosine = (read * z).sum(0) / np.linalg.norm(read, axis=0) / np.linalg.norm(z, axis=0)
    assert abs(cosine.mean()) < 5 / np.sqrt(12 * 3600)


def test_a_fixed_point_becomes_uniform_on_the_sphere() -> None:
    """Moments of a uniform direction in 8 dimensions: mean 0, E[x x^T] = I/8, E[x^4] = 3 / (8 * 10)."""
    rows = columns = 200
    z = np.zeros((8, rows, columns), np.float32)
    z[0] = 1
    points = rotations(channels=8, rows=rows, columns=columns).turn(z).reshape(8, -1).astype(np.float64)
    n = points.shape[1]
    assert np.abs(points.mean(1)).max() < 5 * np.sqrt(1 / 8 / n)
    np.testing.assert_allclose(points @ points.T / n, np.eye(8) / 8, atol=5 * 0.125 / np.sqrt(n))
    np.testing.assert_allclose((points**4).mean(1), 3 / 80, rtol=0.05)


def test_both_signs_of_the_determinant_occur_as_in_the_orthogonal_group() -> None:
    matrices = rotations(channels=3, rows=40, columns=40)._matrices
    assert 0.4 < float((np.linalg.det(matrices) > 0).mean()) < 0.6


def test_a_matrix_of_two_dimensions_is_the_one_worked_out_by_hand() -> None:
    """Gaussians x1, x2, y give [[a, s b], [b, -s a]] with (a, b) = x / |x| and s the sign of y."""
    stream = SegmentKeys(SecretBytes(_SECRET)).pixel_stream()
    words = np.frombuffer(stream.read(16), ">u4").astype(float)
    normal = []
    for first, second in words.reshape(-1, 2):
        radius = np.sqrt(-2 * np.log((first + 0.5) / 2**32))
        normal += [radius * np.cos(2 * np.pi * second / 2**32), radius * np.sin(2 * np.pi * second / 2**32)]
    a, b = np.array(normal[:2]) / np.hypot(normal[0], normal[1])
    s = np.sign(normal[2])
    got = rotations(channels=2, rows=1, columns=1)._matrices[0]
    np.testing.assert_allclose(got, [[a, s * b], [b, -s * a]], atol=1e-6)
