import { VerifyCheck, VerifyEnd } from '../src/conversion';
import { VerificationModel } from '../src/verification';

const SUBJECT = { key: 'code', ranks: 2, mode: 'global' as const };

type Event = VerifyCheck | VerifyEnd;

async function* stream(events: Event[]): AsyncGenerator<Event> {
  yield* events;
}

const check = (
  name: string,
  status: VerifyCheck['status'],
  detail = ''
): VerifyCheck => ({
  check: name,
  status,
  detail
});

describe('VerificationModel', () => {
  it('keeps the latest word on each check, in their order', async () => {
    const model = new VerificationModel();
    await model.run(SUBJECT, () =>
      stream([
        check('a', 'running'),
        check('a', 'pass'),
        check('b', 'running'),
        check('b', 'unknown'),
        { done: true, holds: true }
      ])
    );
    expect(model.checks.map(c => [c.check, c.status])).toEqual([
      ['a', 'pass'],
      ['b', 'unknown']
    ]);
    expect(model.state).toBe('holds');
  });

  it('forgets runs that are over, of which no check says more', async () => {
    const model = new VerificationModel();
    await model.run(SUBJECT, () =>
      stream([
        check('2 ranks: training', 'running', 'step 3 of 4'),
        check('2 ranks: losses', 'pass'),
        check('one process again', 'running'),
        { done: true, holds: true }
      ])
    );
    expect(model.checks.map(c => c.check)).toEqual(['2 ranks: losses']);
  });

  it('says that a conversion does not hold', async () => {
    const model = new VerificationModel();
    await model.run(SUBJECT, () =>
      stream([check('a', 'fail'), { done: true, holds: false }])
    );
    expect(model.state).toBe('fails');
  });

  it('gives the verdict in the words of the server, where it has some', async () => {
    const model = new VerificationModel();
    const end = async (holds: boolean, status: VerifyCheck['status']) => {
      const last: VerifyEnd = { done: true, holds, verdict: `the ranks: ${status}` };
      await model.run(SUBJECT, () => stream([check('a', status), last]));
      return [model.state, model.message];
    };
    expect(await end(true, 'pass')).toEqual(['holds', 'the ranks: pass']);
    expect(await end(false, 'fail')).toEqual(['fails', 'the ranks: fail']);
    expect(await end(false, 'unknown')).toEqual(['undecided', 'the ranks: unknown']);
  });

  it('says why there is no verdict', async () => {
    const model = new VerificationModel();
    await model.run(SUBJECT, () =>
      stream([{ done: true, holds: false, message: 'no Horovod' }])
    );
    expect([model.state, model.message]).toEqual(['error', 'no Horovod']);
    await model.run(SUBJECT, () => stream([check('a', 'pass')]));
    expect(model.state).toBe('error');
    await model.run(SUBJECT, () => {
      throw new Error('no server');
    });
    expect([model.state, model.message]).toEqual(['error', 'no server']);
  });

  it('asks before much is copied', async () => {
    const model = new VerificationModel();
    await model.run(SUBJECT, () =>
      stream([{ done: true, holds: false, confirm: '3 GB' }])
    );
    expect([model.state, model.message]).toEqual(['confirm', '3 GB']);
  });

  it('stops listening, and tells the server, when it is cancelled', async () => {
    const model = new VerificationModel();
    let aborted = false;
    await model.run(SUBJECT, async function* (signal) {
      signal.addEventListener('abort', () => (aborted = true));
      yield check('a', 'running');
      model.cancel();
      yield check('b', 'running');
    });
    expect(aborted).toBe(true);
    expect(model.state).toBe('cancelled');
    expect(model.checks).toHaveLength(1);
  });

  it('counts cells as the panel does, from 1', async () => {
    const model = new VerificationModel();
    const fault = '0.001 → 0.001, not scaled: cell 7, line 8';
    await model.run(SUBJECT, () =>
      stream([
        check('scaled to 2: rates', 'fail', fault),
        { done: true, holds: false, verdict: `It does not hold. First: ${fault}.` }
      ])
    );
    expect(model.checks[0].detail).toBe('0.001 → 0.001, not scaled: cell 8, line 8');
    expect(model.message).toMatch(/First: .*: cell 8, line 8\.$/);
  });
});
