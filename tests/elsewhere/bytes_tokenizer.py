"""A tokenizer of bytes: decoding gives back every response."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


def bytes_tokenizer(eos="<pad>"):
    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<pad>"]
    words = dict.fromkeys([*letters, eos])
    core = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token=eos)
    tokenizer.chat_template = CHAT
    return tokenizer
