"""What several tests need."""

from pathlib import Path

import pytest


@pytest.fixture
def data() -> Path:
    """Files to read. wireless.safetensors is the bundled problem after 300,000 steps with 8 neurons."""
    return Path(__file__).parent / "data"
