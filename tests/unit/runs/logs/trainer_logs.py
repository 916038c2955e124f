"""Logs in the formats of common trainers, of the same training: three epochs of two steps with these figures."""

from collections.abc import Callable

TRAIN_LOSS = (0.9, 0.6, 0.4)
LOSS = (0.75, 0.5, 0.25)
ACCURACY = (0.5, 0.625, 0.875)


def huggingface(quote: str = "") -> str:
    """Return the output of Transformers' Trainer, whose bar and dictionaries share lines.

    `quote`: around each figure, as in version 5.
    """
    lines = ["***** Running training *****", "  Num examples = 8", "  Num Epochs = 3"]

    def text(**figures: float) -> str:
        return "{" + ", ".join(f"'{name}': {quote}{value}{quote}" for name, value in figures.items()) + "}"

    for index, (train_loss, loss, accuracy) in enumerate(zip(TRAIN_LOSS, LOSS, ACCURACY, strict=True)):
        bar = f"{33 * (index + 1):3}%|███▎      | {2 * (index + 1)}/6 [00:10<00:20,  5.00s/it]"
        for fraction in (0.5, 1.0):
            printed = text(loss=train_loss, grad_norm=1.5, learning_rate=4.9e-05, epoch=index + fraction)
            lines.append(f"\r{bar}{printed}\r{bar}")
        runtimes = {"eval_runtime": 0.5, "eval_samples_per_second": 100.0}
        lines.append(f"\r{bar}{text(eval_loss=loss, eval_accuracy=accuracy, **runtimes, epoch=index + 1.0)}")
    return "\n".join([*lines, text(train_runtime=12.3, train_loss=0.63, epoch=3.0), ""])


def lightning() -> str:
    """Return the bars of Lightning, which counts epochs from 0 and shows the last validation until the next one."""
    lines = ["Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00,  9.12it/s]"]
    shown = ""
    for epoch, (train_loss, loss, accuracy) in enumerate(zip(TRAIN_LOSS, LOSS, ACCURACY, strict=True)):
        for step in (1, 2):
            bar = f"Epoch {epoch}: {50 * step:3}%|█████     | {step}/2 [00:00<00:01,  5.00it/s, v_num=0"
            lines.append(f"{bar}, train_loss={train_loss:.3f}{shown}]")
        shown = f", val_loss={loss:.3f}, val_acc={accuracy:.3f}"
        lines.append("Validation DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 50.00it/s]")
        lines.append(f"{bar}, train_loss={train_loss:.3f}{shown}]")
    return "\r".join(lines) + "\n`Trainer.fit` stopped: `max_epochs=3` reached.\n"


def lightning_table(kind: str = "Validate", *, rich: bool = False) -> str:
    """Return the table that Lightning prints after `trainer.validate` and `trainer.test`."""
    prefix, rule = {"Validate": "val", "Test": "test"}[kind], "─" * 60
    rows = [(f"{prefix}_acc", "0.875"), (f"{prefix}_loss", "0.25")]
    if rich:
        body = [f"│{name:^28}│{value:^28}│" for name, value in rows]
        return "\n".join(
            [f"┏{rule}┓", f"┃{kind + ' metric':^28}┃{'DataLoader 0':^28}┃", f"┡{rule}┩", *body, f"└{rule}┘"]
        )
    return "\n".join([rule, f"{kind + ' metric':^28}{'DataLoader 0':^28}", rule, *map(_row, rows), rule])


def _row(row: tuple[str, str]) -> str:
    return f"{row[0]:^28}{row[1]:^28}"


def keras(version: int = 2) -> str:
    """Return the output of Keras: version 2 draws its bar with `=`, version 3 with colored lines; 0 draws none."""
    lines = []
    for epoch, (train_loss, loss, accuracy) in enumerate(zip(TRAIN_LOSS, LOSS, ACCURACY, strict=True), start=1):
        lines.append(f"Epoch {epoch}/3")
        final = f"accuracy: 0.5500 - loss: {train_loss:.4f} - val_accuracy: {accuracy:.4f} - val_loss: {loss:.4f}"
        if version == 2:
            lines.append("1/2 [==============>...............] - ETA: 1s - accuracy: 0.1 - loss: 2.3026")
            lines.append(f"2/2 [==============================] - 1s 50ms/step - {final}")
        elif version == 3:
            lines.append(
                "\x1b[1m1/2\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m━━━━\x1b[0m \x1b[1m1s\x1b[0m 1s/step - loss: 2.3"
            )
            lines.append(
                f"\x1b[1m2/2\x1b[0m \x1b[32m━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m2s\x1b[0m 50ms/step - {final}"
            )
        else:
            lines.append(f"2/2 - 1s - {final} - 1s/epoch - 50ms/step")
    return "\n".join([*lines, ""])


def torchtune() -> str:
    """Return the bars of torchtune: epoch, step and loss in the description."""
    lines = []
    for epoch, train_loss in enumerate(TRAIN_LOSS, start=1):
        for step in (1, 2):
            head = f"{epoch}|{2 * (epoch - 1) + step}|Loss: {train_loss}"
            lines.append(f"{head}: {50 * step:3}%|█████     | {step}/2 [00:01<00:01,  1.25s/it]")
    return "\r".join(lines) + "\n"


def tqdm() -> str:
    """Return the bars of a loop of one's own, with figures behind them."""
    lines = []
    for epoch, (loss, accuracy) in enumerate(zip(LOSS, ACCURACY, strict=True), start=1):
        for step in (1, 2):
            bar = f"Epoch {epoch}/3: {50 * step:3}%|█████     | {step}/2 [00:01<00:01,  1.25s/it"
            lines.append(f"{bar}, val_loss={loss}, val_acc={accuracy}]")
    return "\r".join(lines) + "\n"


TRAINERS: dict[str, tuple[Callable[[], str], str]] = {
    "huggingface": (huggingface, "eval_loss"),
    "huggingface 5": (lambda: huggingface("'"), "eval_loss"),
    "lightning": (lightning, "val_loss"),
    "keras 2": (keras, "val_loss"),
    "keras 3": (lambda: keras(3), "val_loss"),
    "keras without bar": (lambda: keras(0), "val_loss"),
    "tqdm": (tqdm, "val_loss"),
}
"""The log of each trainer that validates, and its name of the validation loss."""
