"""What all tables of the configuration have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the configuration: an unknown key in it is an error, and nothing changes it once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)
