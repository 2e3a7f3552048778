"""A small Llama and a tokenizer of single characters, made on the spot: nothing is downloaded."""

from __future__ import annotations

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHARACTERS = "0123456789+-*=>:"


def character_tokenizer(characters: str = CHARACTERS) -> PreTrainedTokenizerFast:
    """One token per character, and one each for padding and the end."""
    vocabulary = {token: index for index, token in enumerate(["<pad>", "<eos>", *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )


def tiny_llama(tokenizer: PreTrainedTokenizerFast, seed: int, *, width: int = 64, layers: int = 2) -> LlamaForCausalLM:
    """Random weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config)


def pretrain(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    texts: list[str],
    *,
    steps: int,
    batch_size: int = 128,
    seed: int = 0,
) -> float:
    """Next-token training on `texts`, each followed by the end token; returns the last loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    encoded = tokenizer([text + tokenizer.eos_token for text in texts], return_tensors="pt", padding=True)
    labels = encoded.input_ids.masked_fill(encoded.attention_mask == 0, -100)
    generator = torch.Generator().manual_seed(seed)
    loss = torch.tensor(float("nan"))
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(texts), (batch_size,), generator=generator)
        inputs = encoded.input_ids[rows]
        loss = model(input_ids=inputs, attention_mask=encoded.attention_mask[rows], labels=labels[rows]).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return float(loss.detach())
