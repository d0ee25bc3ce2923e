"""bench: that its JSON says what was run. Nothing here is timed."""
import json

from e2e import EQUAL, USAGE, case, check, expect, main


def measured(*arguments):
    return json.loads(expect(EQUAL, *arguments, tool='bench').out)


@case
def every_gemm_of_a_step_is_seen():
    tokens, emb, mlp, vocab, layers, rows, heads, length, head_dim = 256, 128, 256, 1024, 8, 8, 4, 32, 32
    matrices = 4 * emb * emb + 3 * emb * mlp
    linear = 2 * tokens * layers * (3 * matrices + matrices - mlp * emb)  # recomputed: all but the last projection
    attention = 2 * length * length * head_dim * rows * heads * layers * (2 + 2 + 5)
    flop = linear + 3 * 2 * tokens * emb * vocab + attention
    steps = measured('--case', 'main', '--quick')['steps']
    check([s['case'] for s in steps] == ['main/linen', 'main/nnx', 'main/sequential'], str(steps))
    for s in steps:
        check(round(s['gemm_gflop'] * 1e9) == flop, f"{s['case']}: {s['gemm_gflop']} GFLOP, expected {flop * 1e-9}")
        check(s['threads'] == 2 and s['rounds'] == 1 and s['gemm_calls'] > 0, str(s))
        check(0 < s['gemm_share'] < 1 and s['step_to_gemm_only'] > 0 and s['peak_memory'] > 1 << 20, str(s))
        check(s['step_to_gemm_only'] == s['step_seconds'] / s['gemm_only_seconds'], str(s))


@case
def the_comparison_has_all_its_sides():
    c = measured('--case', 'compare', '--quick')['compare']
    check([s['side'] for s in c['sides']] ==
          ['a (linen)', 'b (nnx)', 'oracle (sequential)', 'truth (sequential64)'], str(c))
    check(c['steps'] == 15 and c['rounds'] == 1, str(c))
    check(c['peak_memory_sum'] == sum(s['peak_memory'] for s in c['sides']), str(c))
    check(0 < c['seconds_min'] <= c['seconds_median'], str(c))


@case
def the_suite_is_measured_whole():
    suite = measured('--case', 'suite', '--quick')['suite']
    check(suite['cases'] > 0 and suite['seconds'] > 0, str(suite))


@case
def the_memory_of_a_step_has_names():
    memory = measured('--case', 'memory')['memory']
    check(len(memory) == 16 and {m['route'] for m in memory} == {'linen', 'nnx'}, str(memory))
    for m in memory:
        check(sum(block['bytes'] for block in m['step']) == m['step_bytes'] > 1 << 20, str(m))
        check(all(block['place'] and block['pointer'] for block in m['step']), str(m))
        check(m['parameter_bytes'] == memory[0]['parameter_bytes'], str(m))
    stages, repeats, real, cells, activation = 4, 2, 4 * 2 * 8, 4 * (2 * 8 + 3), 4 * 2 * 128 * 512
    weights = 4 * (512 * (4 * 512 + 3 * 1376) + 2 * 512)
    kept = {m['case']: {row['name']: row['bytes'] for row in m['kept']} for m in memory}
    for m in memory:
        check(kept[m['case']].pop('residual/iteration_input') == cells * activation, str(m))
        if m['route'] == 'nnx':  # the buffers themselves: bubbles have inputs, and keep nothing else
            blocks = {block['pointer']: block['bytes'] for block in m['step']}
            slots = sum(b for name, b in kept[m['case']].items() if not name.startswith('residual/w'))
            check(blocks['&stacked'] == cells * activation, str(blocks))
            check(blocks.get('&out->saved[i]', 0) == slots * real // cells, str(blocks))
    for routes in ('linen', 'nnx'):
        one = {name.split('/')[1]: row for name, row in kept.items() if name.endswith('/' + routes)}
        carried = {'residual/w_curr': stages * repeats * weights}
        check(one['plain-full'] == {}, str(one))
        check(one['plain-none']['residual/weights'] == cells * weights, str(one))
        check(one['once-full'] == {'residual/weights': stages * repeats * weights}, str(one))
        check(one['circular-full'] == carried, str(one))
        check(one['circular-minimal'] == one['plain-minimal'] | carried, str(one))
        both = carried | ({'residual/w_next': stages * repeats * weights} if routes == 'nnx' else {})
        check(one['circular-kept'] == both, str(one))


@case
def dumps_are_compared():
    diff = measured('--case', 'diff', '--quick', '--mib', '16')['diff']
    check(diff['bytes_each'] == 16 << 20 and diff['rounds'] == 1, str(diff))
    for one in diff['equal'], diff['sparse']:
        ratio = diff['memory_pass']['seconds'] / one['seconds']
        check(one['to_memory_pass']['throughput'] == ratio > 0 and one['peak_memory'] > 1 << 20, str(diff))


@case
def levels_of_capture_are_what_they_say():
    for route in measured('--case', 'capture', '--quick')['capture']:
        seen = {one['level']: one['observations'] for one in route['levels']}
        check(list(seen) == ['no probe', 'off', 'off again', 'state', 'digest'], str(seen))
        check(seen['no probe'] == seen['off'] == seen['off again'] == 0 < seen['state'] < seen['digest'], str(seen))
        check(route['steps'] == 15 and route['rounds'] == 1, str(route))


@case
def what_it_does_not_know_is_refused():
    for arguments, says in ((['--case', 'none'], 'main/linen'), (['--rounds', '0'], '--rounds'), (['main'], "'main'"),
                            (['--rounds', '1000'], '64'), (['--mib', '3'], '--mib'), (['--qick'], '--quick')):
        r = expect(USAGE, *arguments, tool='bench', says=[says])
        check(not r.out and r.err.count('\n') == 1, f'{r}: {r.out}{r.err}')


@case
def it_describes_itself():
    expect(EQUAL, '--help', tool='bench', says=['usage: bench', '--quick'])
    expect(EQUAL, '--list', tool='bench', says=['compare', 'scan-remat/nnx', 'memory/plain-full/linen'])


main()
