#!/usr/bin/env python3
"""Counts the instructions of calls in PTX, as nvcc makes it for GPUs, by running them: thread 0 of a block, on the memory that
verbs_calls tells. What a call leaves in memory, and its result, must be what they are on the CPU.

ptx.py FILE.ptx IMAGES prints a line for each call: its name, its instructions, and those of them that read and that write memory, shared
memory too. What only renames is not counted: parameters, address spaces, moves of registers and constants, halves of 64 bits."""
import re
import sys

MASK = {bits: (1 << bits) - 1 for bits in (8, 16, 32, 64, 128)}
# Shared memory, and a place for results, where no image lies.
SHARED, RESULT, LIMIT = 0x1000, 0x10, 20_000
FREE = ("cvta", "ld.param", "mov.u", "mov.b", "mov.pred", "cvt.u64.u32", "cvt.u32.u64", "bfi.b64", "ret")


def split(text):
    """Kernels by name: their instructions, and places of labels. Registers of inner scopes get names of their own."""
    text = re.sub(r"//[^\n]*", "", text)
    shared, top = {}, SHARED
    for align, bits, name, count in re.findall(r"\.shared \.align (\d+) \.[bu](\d+) (\w+)(?:\[(\d+)\])?;", text):
        top = (top + int(align) - 1) // int(align) * int(align)
        shared[name], top = top, top + int(bits) // 8 * int(count or 1)
    kernels = {}
    for name, body in re.findall(r"\.visible \.entry (\w+)\([^)]*\)[^{]*(\{.*?\n\})", text, re.S):
        code, labels, scopes, count = [], {}, [], 0
        for token in re.findall(r"\{(?=\s)|\}(?=\s|$)|\$\w+:|[^;{}\n]*\{[^{}\n]*\}[^;\n]*;|[^;{}\n]+;", body):
            token = token.strip()
            if token == "{":
                count += 1
                scopes.append((count, set()))
            elif token == "}":
                scopes.pop()
            elif token.endswith(":"):
                labels[token[:-1]] = len(code)
            elif token.startswith(".reg"):
                if len(scopes) > 1:
                    scopes[-1][1].update(re.findall(r"%\w+", token))
            elif not token.startswith("."):
                def own(found):
                    inner = [number for number, names in scopes if found[0] in names]
                    return f"{found[0]}@{inner[-1]}" if inner else found[0]
                code.append(re.sub(r"%\w+(?:\.x)?", own, token.rstrip(";").strip()))
        kernels[name] = (code, labels)
    return kernels, shared


class Machine:
    def __init__(self, shared, start, image, parameters):
        self.registers, self.shared, self.parameters = {}, shared, parameters
        self.start, self.image, self.other = start, bytearray(image), bytearray(0x8000)

    def place(self, address, size):
        if self.start <= address and address + size <= self.start + len(self.image):
            return self.image, address - self.start
        if 0 < address and address + size <= len(self.other):
            return self.other, address
        raise SystemExit(f"ptx.py: an access to {address:#x}, which the call does not know")

    def load(self, address, bits):
        memory, at = self.place(address, bits // 8)
        return int.from_bytes(memory[at : at + bits // 8], "little")

    def store(self, address, bits, value):
        memory, at = self.place(address, bits // 8)
        memory[at : at + bits // 8] = (value & MASK[bits]).to_bytes(bits // 8, "little")

    def value(self, operand):
        if operand in ("%tid.x", "%ctaid.x", "%tid.y", "%tid.z"):
            return 0
        if operand in ("%ntid.x", "%ntid.y", "%ntid.z"):
            return 64 if operand == "%ntid.x" else 1
        # Inline assembler names some without a percent sign.
        if operand.startswith("%") or operand in self.registers:
            return self.registers.get(operand, 0)
        if operand in self.shared:
            return self.shared[operand]
        return int(operand, 0)

    def address(self, operand):
        base, _, offset = operand.strip("[]").partition("+")
        return self.value(base) + (int(offset) if offset else 0)


def signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
           "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
COMBINE = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "add": lambda a, b: a + b,
           "sub": lambda a, b: a - b}


def byte_permute(a, b, selector):
    both = (a | b << 32).to_bytes(8, "little")
    return int.from_bytes(bytes(both[selector >> 4 * i & 7] for i in range(4)), "little")


def step(machine, name, operands):
    """Carries out one instruction that is no branch."""
    parts, value = name.split("."), machine.value
    kind = parts[-1]
    bits = 1 if kind == "pred" else int(kind[1:]) if kind[1:].isdigit() else 0

    def to(result):
        machine.registers[operands[0]] = result & (MASK[bits] if bits > 1 else 1)

    if parts[0] == "ld" and parts[1] == "param":
        to(machine.parameters[int(operands[1].strip("[]").rpartition("_")[2])])
    elif parts[0] in ("ld", "st"):
        wide = operands[0].startswith("{") or operands[-1].startswith("{")
        vector = [part.strip() for part in (operands[0] if parts[0] == "ld" else operands[1]).strip("{}").split(",")]
        at = machine.address(operands[1] if parts[0] == "ld" else operands[0])
        for i, register in enumerate(vector if wide else vector[:1]):
            if parts[0] == "ld":
                machine.registers[register] = machine.load(at + i * bits // 8, bits)
            else:
                machine.store(at + i * bits // 8, bits, value(register))
    elif parts[0] == "atom":
        at = machine.address(operands[1])
        before = machine.load(at, bits)
        if parts[-2] == "add":
            machine.store(at, bits, before + value(operands[2]))
        elif parts[-2] == "cas" and before == value(operands[2]):
            machine.store(at, bits, value(operands[3]))
        machine.registers[operands[0]] = before
    elif parts[0] == "setp":
        a, b = value(operands[1]), value(operands[2])
        a, b = (signed(a & MASK[bits], bits), signed(b & MASK[bits], bits)) if kind[0] == "s" else (a & MASK[bits], b & MASK[bits])
        machine.registers[operands[0]] = int(COMPARE[parts[1]](a, b))
    elif parts[0] in COMBINE:
        to(COMBINE[parts[0]](value(operands[1]), value(operands[2])))
    elif parts[0] == "not":
        to(~value(operands[1]))
    elif parts[0] == "mov" and operands[1].startswith("{"):
        halves = [value(half.strip()) for half in operands[1].strip("{}").split(",")]
        to(halves[0] | halves[1] << bits // 2)
    elif parts[0] == "mov" and operands[0].startswith("{"):
        for i, half in enumerate(operands[0].strip("{}").split(",")):
            machine.registers[half.strip()] = value(operands[1]) >> i * bits // 2 & MASK[bits // 2]
    elif parts[0] in ("mov", "cvta"):
        to(value(operands[1]))
    elif parts[0] == "cvt":
        to(value(operands[1]) & MASK[int(kind[1:])])
        machine.registers[operands[0]] &= MASK[int(parts[-2][1:])]
    elif name.startswith("mul.wide.u32"):
        machine.registers[operands[0]] = value(operands[1]) * value(operands[2]) & MASK[64]
    elif parts[0] == "mul":
        to(value(operands[1]) * value(operands[2]))
    elif parts[0] == "shl":
        to(value(operands[1]) << value(operands[2]))
    elif parts[0] == "shr":
        source = value(operands[1])
        to((signed(source, bits) if kind[0] == "s" else source) >> value(operands[2]))
    elif parts[0] == "selp":
        to(value(operands[1] if value(operands[3]) else operands[2]))
    elif parts[0] == "prmt":
        to(byte_permute(*(value(operand) & MASK[32] for operand in operands[1:4])))
    elif parts[0] == "bfi":
        at, length = value(operands[3]), value(operands[4])
        field = (1 << length) - 1 << at
        to(value(operands[2]) & ~field | value(operands[1]) << at & field)
    elif parts[0] == "bar" and parts[1] == "red":
        machine.registers[operands[0]] = value(operands[2])
    elif parts[0] not in ("bar", "fence"):
        raise SystemExit(f"ptx.py: {name} is not known")


def run(kernel, machine):
    """Runs a kernel to its end; how many instructions of it count, read and write."""
    (code, labels), at = kernel, 0
    counted = reads = writes = 0
    for _ in range(LIMIT):
        text = code[at]
        at += 1
        guard = re.match(r"@(!?)(%\S+)\s+(.*)", text, re.S)
        text = guard[3] if guard else text
        name, _, rest = text.partition(" " if " " in text and "\t" not in text.split(" ")[0] else "\t")
        name, rest = name.strip(), rest.strip()
        counted += not name.startswith(FREE) or "%tid" in rest or "%ntid" in rest
        if guard and bool(machine.value(guard[2])) == bool(guard[1]):
            continue
        if name == "ret":
            # The store of the result is the kernel's, not the call's.
            return counted - 1, reads, writes - 1
        reads += name.startswith(("ld", "atom")) and not name.startswith("ld.param")
        writes += name.startswith(("st", "atom"))
        if name.startswith("bra"):
            at = labels[rest]
            continue
        step(machine, name, [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)])
    raise SystemExit("ptx.py: a call has no end")


def main():
    kernels, shared = split(open(sys.argv[1]).read())
    lines = [line.split() for line in open(sys.argv[2])]
    for before, after in zip(lines[::2], lines[1::2]):
        assert before[0] == "before" and after[0] == "after" and before[1] == after[1]
        name, start = before[1], int(before[4], 16)
        machine = Machine(shared, start, bytes.fromhex(before[5]), [int(before[2], 16), int(before[3], 16), RESULT])
        counts = run(kernels[name], machine)
        wanted = bytes.fromhex(after[5])
        wrong = [at for at in range(len(wanted)) if wanted[at] != machine.image[at]]
        if wrong or machine.load(RESULT, 32) != int(after[2], 16):
            raise SystemExit(f"ptx.py: {name} leaves another memory or result than on the CPU: {wrong[:8]}")
        print(name, *counts)


main()
