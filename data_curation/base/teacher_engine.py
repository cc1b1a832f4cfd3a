"""The contract of engines that answer as a recipe's teacher (`Teacher.kind`)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from ratchet.data_curation.base.protocol import Completion, Request, Sampling
from ratchet.verifiers.registry import Registry, concrete

if TYPE_CHECKING:
    from ratchet.data_curation.settings.teacher import Teacher


class TeacherEngine(ABC):
    """An engine that answers as the recipe's teacher; `Teacher.kind` names the class."""

    paid: ClassVar[bool] = False
    """True if answers cost money. Such answers serve every seed of a recipe, are saved one by one, and are billed in
    reports."""
    tell: Callable[[str], None] = staticmethod(lambda trouble: None)
    """A callback set by the caller and called from any thread with a sentence for the user."""

    @classmethod
    @abstractmethod
    def for_teacher(cls, teacher: "Teacher") -> "TeacherEngine":
        """The engine that the recipe describes. Raises RatchetError for settings that cannot work."""

    @classmethod
    def check(cls, teacher: "Teacher") -> None:
        """Raises RatchetError if the engine would not answer. Called before the first step of a run that needs it."""
        return

    @abstractmethod
    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yield one completion per request, as soon as it finishes (see `protocol.Engine`); requests carry
        `messages`."""

    def close(self) -> None:
        """Release memory, connections and processes. Safe to call twice."""
        return


TEACHERS: Registry[type[TeacherEngine]] = Registry(
    "teacher", {"openai": "ratchet.data_curation.base.openai_engine:OpenAIEngine"}, concrete(TeacherEngine)
)
