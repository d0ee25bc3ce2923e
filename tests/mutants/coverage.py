"""Which tests cover which file: the first row whose prefix fits. Units run first, then the scripts, each in this order;
a unit test named like the file goes before all."""

COMPARE = ('verdict', 'join', 'judge', 'tiers', 'metrics', 'walk', 'structure', 'cause', 'distance', 'calibration',
           'stream', 'forged', 'golden_rule', 'report', 'report_forms', 'teeth', 'controls', 'terms', 'explain',
           'explain_update', 'divergence', 'golden', 'golden_review', 'short_of_memory')
BEFORE = {'common/compare/judge.c': ('judge', 'verdict'),
          'common/compare/recording.c': ('verdict', 'structure', 'stream'),
          'common/compare/fingerprint.c': ('tiers', 'golden', 'verdict'),
          'common/compare/exitcode.c': ('tiers', 'judge'),
          'tools/judging/outside.c': ('outside',), 'tools/judging/positions.c': ('counters',),
          'tools/judging/truth.c': ('truth',),
          'common/config/fields.c': ('validate',), 'common/config/derive.c': ('validate',),
          'common/config/values.c': ('validate',), 'common/config/remat_keys.c': ('validate',),
          'tools/judging/residuals.c': ('dispatch_residuals',),
          'tools/judging/verdicts.c': ('verdicts', 'judgement'), 'tools/judging/judgement.c': ('orders',),
          'tools/judging/reference.c': ('reference',),
          'tools/judging/unobserved.c': ('unobserved',), 'tools/judging/terms.c': ('missing_terms',)}
# What is compiled as a part of another file.
INCLUDED = {'common/compare/metrics_lanes.h': 'common/compare/metrics_chunk.c'}
CONFIG = ('merge', 'validate', 'load', 'support', 'upstream', 'keys', 'yaml', 'corpus')
SCRIPTS = ('e2e_comparisons', 'e2e_judging', 'e2e_golden_review', 'e2e_reference', 'e2e_upstream', 'e2e_goldens',
           'e2e_teeth', 'e2e_calibration')

EXPLAIN = ('explain', 'explain_update', 'terms', 'divergence')

ROWS = (('common/compare/controls_data.c', ('controls_data', 'controls'), ()),
        ('common/compare/controls_values.c', ('controls_values', 'controls'), ()),
        ('common/compare/controls_damage.c', ('controls_damage', 'controls'), ()),
        ('common/compare/controls', ('controls', 'controls_damage', 'controls_values', 'controls_data', 'teeth'), ()),
        ('common/compare/teeth.c', ('teeth', 'report'), ()),
        ('common/compare/terms.c', ('terms', 'explain', 'explain_update'), ()),
        ('common/compare/explain', EXPLAIN, ()),
        ('common/compare/divergence', ('divergence', 'explain'), ()),
        ('common/compare/metrics', ('metrics', 'norm', 'verdict', 'tiers'), ()),
        ('common/compare/norm.c', ('norm', 'verdict'), ()),
        ('common/compare/cause.c', ('cause',), ()),
        ('common/compare/calibration.c', ('calibration', 'golden'), ()),
        ('common/compare/golden_diff.c', ('golden_review',), ()),
        ('common/compare/golden_select.c', ('golden_rule', 'golden'), ()),
        ('common/compare/golden_changelog.c', ('golden_review', 'golden'), ()),
        ('common/compare/golden_compare.c', ('golden_rule', 'golden', 'golden_review'), ()),
        ('common/compare/golden_read.c', ('golden', 'golden_review', 'report_full'), ()),
        ('common/compare/golden', ('golden', 'golden_review'), ()),
        ('common/compare/pending.c', ('golden_review',), ()),
        ('common/compare/stream_', ('stream', 'forged'), ()),
        ('common/compare/codec.c', ('stream', 'forged'), ()),
        ('common/compare/recording_stream.c', ('stream', 'forged'), ()),
        ('common/compare/groups.c', ('structure', 'verdict'), ()),
        ('common/compare/index.c', ('stream', 'structure', 'join'), ()),
        ('common/compare/cursor.c', ('walk', 'metrics', 'tiers', 'verdict'), ()),
        ('common/compare/verdict_names.c', ('structure', 'cause', 'verdict', 'report'), ()),
        ('common/compare/report', ('report_full', 'report', 'report_forms'), ()),
        ('common/compare/', COMPARE, ()),
        ('common/base/json', ('json', 'json_corpus', 'number'), ()),
        ('common/base/number.c', ('number', 'json'), ()),
        ('common/base/yaml', ('yaml', 'corpus', 'merge'), ()),
        ('common/tensor/safetensors', ('safetensors', 'hostile'), ()),
        ('common/tensor/np', ('hostile_npz',), ()),
        ('common/config/', CONFIG, ()),
        ('tools/golden/', (), ('e2e_goldens', 'e2e_golden_review', 'e2e_calibration')),
        ('tools/ab_diff', (), ('e2e_diff',)),
        ('tools/diff/', (), ('e2e_diff',)),
        ('tools/', ('judgement', 'outside', 'counters', 'bounds', 'expectation', 'dispatch_residuals'), SCRIPTS))


def tests_of(file, known):
    """(unit names, script names) that exist in this build."""
    units, scripts = next(((u, s) for prefix, u, s in ROWS if file.startswith(prefix)), ((), ()))
    stem = file.rsplit('/', 1)[-1].removesuffix('.c')
    first = BEFORE.get(file, ()) + tuple(u for u in units if u == stem)
    ordered = dict.fromkeys(first + units)
    return [u for u in ordered if u in known], [s for s in scripts if s in known]
