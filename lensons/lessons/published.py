"""What is published about single heads of GPT-2 small, to stand beside what is measured.

Roles are those of the circuit that Wang et al. (2022) found, as written in their code: the dictionary ``CIRCUIT`` in
``easy_transformer/ioi_circuit_extraction.py`` of redwoodresearch/Easy-Transformer (commit ea15315d). Heads are 0-based.
"""

ROLES: dict[str, tuple[str, ...]] = {
    "previous_token": ("2.2", "4.11"),
    "duplicate_token": ("0.1", "0.10", "3.0"),
    "induction": ("5.5", "5.8", "5.9", "6.9"),
}
