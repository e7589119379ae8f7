import { Signal } from '@lumino/signaling';

import { Follower, ISession } from '../src/workers/follower';
import { ILook, IQuestion } from '../src/workers/look';

const WORKER = {
  rank: 0,
  host: '',
  pid: 1,
  device: '',
  memory: 0,
  line: '',
  text: '',
  does: '',
  seconds: 0,
  lost: false
};

/** A kernel that answers questions, and what it was asked. */
function follower(answer: (question: IQuestion) => Partial<ILook> | null) {
  const session = { session: { kernel: { status: 'busy' } } } as unknown as ISession;
  const statusChanged = new Signal<unknown, unknown>({});
  const kernelChanged = new Signal<unknown, unknown>({});
  Object.assign(session, { statusChanged, kernelChanged });
  const asked: IQuestion[] = [];
  const found = new Follower(session, async (_, question) => {
    asked.push(question);
    const look = answer(question);
    return look && { message: '', ranks: [WORKER], ...look };
  });
  const status = (status: string): void => {
    Object.assign(session.session!.kernel!, { status });
    statusChanged.emit(undefined);
  };
  return { found, asked, status };
}

describe('what is followed of the workers', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('is asked each second while a cell runs, and nothing while nobody sees it', async () => {
    const { found, asked } = follower(() => ({ running: true }));
    await jest.advanceTimersByTimeAsync(10_000);
    expect(asked).toEqual([]);
    found.follow(true);
    await jest.advanceTimersByTimeAsync(3100);
    expect(asked.length).toBe(4);
    found.follow(false);
    await jest.advanceTimersByTimeAsync(10_000);
    expect(asked.length).toBe(4);
  });

  it('has variables again when the kernel is idle, and keeps them until then', async () => {
    let count = 0;
    const { found, asked, status } = follower(({ variables }) =>
      variables ? { variables: [{ name: `v${++count}`, groups: [] }] } : {}
    );
    found.follow(true);
    await jest.advanceTimersByTimeAsync(0);
    expect(found.variables?.[0].name).toBe('v1');
    await jest.advanceTimersByTimeAsync(20_000);
    expect(asked.filter(({ variables }) => variables).length).toBe(1);
    expect(found.variables?.[0].name).toBe('v1');
    status('idle');
    await jest.advanceTimersByTimeAsync(0);
    expect(found.variables?.[0].name).toBe('v2');
  });

  it('does not compare variables more often than a tenth of the time', async () => {
    const { found, asked } = follower(() => {
      // The kernel takes a second for it.
      jest.advanceTimersByTime(1000);
      return { running: true, variables: [] };
    });
    found.follow(true);
    await jest.advanceTimersByTimeAsync(9000);
    expect(asked.length).toBeGreaterThan(3);
    expect(asked.filter(({ variables }) => variables).length).toBe(1);
  });

  it('is forgotten where the kernel has no workers any more', async () => {
    let look: Partial<ILook> | null = { variables: [{ name: 'v', groups: [] }] };
    const { found } = follower(() => look);
    found.follow(true);
    await jest.advanceTimersByTimeAsync(0);
    expect(found.variables).not.toBeNull();
    look = null;
    await found.ask(true);
    expect([found.look, found.variables, found.hasAsked]).toEqual([null, null, true]);
  });
});
