"""As much of JSON Schema as docs/*.schema.json use, strictly: an unknown keyword is an error."""
import json

TYPES = {'null': type(None), 'boolean': bool, 'number': (int, float), 'integer': int, 'string': str, 'array': list,
         'object': dict}
WORDS = {'title', 'description', '$schema', '$id', '$defs', 'additionalProperties', 'required', 'items', 'minimum'}


class Schemas:
    def __init__(self, folder):
        self.folder, self.read = folder, {}

    def file(self, name):
        if name not in self.read:
            self.read[name] = json.loads((self.folder / name).read_text())
        return self.read[name]

    def fault(self, value, file, schema=None, where='$'):
        """The first violation as a sentence, or None."""
        schema = self.file(file) if schema is None else schema
        for word, what in schema.items():
            found = self.keyword(value, file, schema, where, word, what)
            if found:
                return found
        return None

    def keyword(self, value, file, schema, where, word, what):
        if word == '$ref':
            name, _, path = what.partition('#/$defs/')
            target = self.file(name or file)['$defs'][path] if path else self.file(name)
            return self.fault(value, name or file, target, where)
        if word == 'anyOf':
            found = [self.fault(value, file, s, where) for s in what]
            return None if None in found else f'{where} fits no alternative: {found}'
        if word == 'type':
            kinds = [what] if isinstance(what, str) else what
            fits = any(isinstance(value, TYPES[k]) and (k == 'boolean') == isinstance(value, bool) for k in kinds)
            return None if fits else f'{where} is {value!r}, expected {what}'
        if word in ('enum', 'const'):
            return None if value in (what if word == 'enum' else [what]) else f'{where} is {value!r}, expected {what}'
        if word == 'properties':
            return self.properties(value, file, schema, where)
        if word == 'items' and isinstance(value, list):
            return next(filter(None, (self.fault(v, file, what, f'{where}[{i}]') for i, v in enumerate(value))), None)
        if word == 'minimum':
            return None if value >= what else f'{where} is {value}, expected at least {what}'
        return None if word in WORDS else f'unknown keyword {word}'

    def properties(self, value, file, schema, where):
        if not isinstance(value, dict):  # its type is another keyword's affair
            return None
        for key in schema.get('required', []):
            if key not in value:
                return f'{where} lacks {key}'
        for key, member in value.items():
            if key not in schema['properties']:
                return f'{where}.{key} is not in the schema'
            found = self.fault(member, file, schema['properties'][key], f'{where}.{key}')
            if found:
                return found
        return None
