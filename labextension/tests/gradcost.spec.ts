import { JSONObject } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { ILink, PanelModel } from '../src/gradcost/model';
import { spanOf } from '../src/gradcost/change';
import { IChange, IReport, isReport } from '../src/gradcost/report';
import { apart } from '../src/plot';

/** A kernel's side that answers when it is told to. */
class Kernel implements ILink {
  state: ILink['state'] = 'live';
  readonly asked: JSONObject[] = [];
  readonly received = new Signal<this, JSONObject>(this);
  readonly stateChanged = new Signal<this, void>(this);
  isDisposed = false;

  ask(message: JSONObject): void {
    this.asked.push(message);
  }

  say(message: object): void {
    this.received.emit(message as JSONObject);
  }

  become(state: ILink['state']): void {
    this.state = state;
    this.stateChanged.emit();
  }

  dispose(): void {
    this.isDisposed = true;
  }
}

const report = (n: number, more: Partial<IReport> = {}): IReport =>
  ({
    id: 'a',
    version: 3,
    title: `n = ${n}`,
    controls: [],
    sections: [],
    ...more
  }) as unknown as IReport;

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test('one wish is on the way at a time, and the newest follows it', () => {
  const kernel = new Kernel();
  const model = new PanelModel(report(1), kernel);
  for (const n of [2, 3, 4]) {
    model.resize({ n });
  }
  expect(kernel.asked).toEqual([{ do: 'sizes', sizes: { n: 2 }, seq: 1 }]);
  kernel.say({ report: report(2), seq: 1 });
  expect(kernel.asked.slice(1)).toEqual([{ do: 'sizes', sizes: { n: 4 }, seq: 2 }]);
  kernel.say({ error: 'out of range', seq: 2 });
  expect(model.isPending).toBe(false);
  expect(model.error).toBe('out of range');
  expect(model.report!.title).toBe('n = 2');
});

test('what went wrong stays on display until something else is asked', () => {
  const kernel = new Kernel();
  const model = new PanelModel(report(1), kernel);
  const fail = (seq: number): void => {
    model.resize({ n: 9 });
    kernel.say({ error: 'out of range', seq });
  };
  fail(1);
  kernel.say({ report: report(1) });
  expect(model.error).toBe('out of range');
  model.resize({ n: 2 });
  kernel.say({ report: report(2), seq: 2 });
  expect(model.error).toBe('');
  fail(3);
  model.ask({ do: 'linked', linked: [] });
  expect(model.error).toBe('');
  fail(4);
  model.ask({ do: 'inspect', function: 'f', wrt: ['x'] });
  expect(model.error).toBe('');
});

test('the notebook keeps figures that came to rest, not those it has', () => {
  const kernel = new Kernel();
  const kept: JSONObject[] = [];
  const model = new PanelModel(report(1), kernel, bundle => kept.push(bundle));
  kernel.say({ report: report(1) });
  jest.advanceTimersByTime(2000);
  expect(kernel.asked).toEqual([]);
  model.resize({ n: 2 });
  kernel.say({ report: report(2), seq: 1 });
  jest.advanceTimersByTime(2000);
  expect(kernel.asked.map(message => message.do)).toEqual(['sizes', 'save']);
  kernel.say({ bundle: { 'text/plain': 'n = 2' } });
  expect(kept).toEqual([{ 'text/plain': 'n = 2' }]);
});

test('sizes that XLA was not asked about are asked about once', () => {
  const kernel = new Kernel();
  const model = new PanelModel(report(1), kernel);
  kernel.say({ report: report(1, { pending: 'n = 1' }) });
  model.resize({ n: 2 });
  for (let i = 0; i < 2; i++) {
    kernel.say({ report: report(2, { pending: 'n = 2' }), seq: 1 });
    jest.advanceTimersByTime(2000);
  }
  expect(kernel.asked.filter(message => message.do === 'estimate')).toHaveLength(1);
});

test('a kernel that goes leaves the figures, and takes what was under way', () => {
  const kernel = new Kernel();
  const model = new PanelModel(report(1), kernel);
  model.measure({ do: 'measure' });
  expect(model.progress).not.toBeNull();
  model.resize({ n: 2 });
  kernel.become('gone');
  expect(model.progress).toBeNull();
  expect(model.isPending).toBe(false);
  expect(model.report).not.toBeNull();
  model.measure({ do: 'measure' });
  model.resize({ n: 3 });
  expect(kernel.asked.map(message => message.do)).toEqual(['measure', 'sizes']);
});

test('letters at the ends of curves do not lie on one another', () => {
  expect(apart([50, null, 52, 90], 10)).toEqual([42, null, 52, 90]);
  expect(apart([], 10)).toEqual([]);
});

test('figures that another front end keeps are kept once', () => {
  const kernel = new Kernel();
  const model = new PanelModel(report(1), kernel, () => undefined);
  kernel.say({ report: report(1) });
  kernel.say({ report: report(3), keep: true });
  kernel.say({ report: report(2), keep: false });
  jest.runAllTimers();
  expect(model.report!.title).toBe('n = 2');
  expect(kernel.asked).toEqual([]);
  kernel.say({ report: report(3), keep: true });
  jest.runAllTimers();
  expect(kernel.asked).toEqual([{ do: 'save' }]);
});

test('what another version saved is not shown', () => {
  expect(isReport(report(1))).toBe(true);
  expect(isReport({ ...report(1), version: 1 })).toBe(false);
  expect(isReport(null)).toBe(false);
  expect(isReport('text')).toBe(false);
});

test('there is one measurement at a time: at the sizes on display, or over one of them', () => {
  const kernel = new Kernel();
  const model = new PanelModel(report(1), kernel);
  model.measure({ do: 'sweep', size: 'n' });
  model.measure({ do: 'measure' });
  model.measure({ do: 'sweep', size: 'm' });
  expect(kernel.asked).toEqual([{ do: 'sweep', size: 'n' }]);
  kernel.say({ progress: null });
  model.measure({ do: 'measure' });
  expect(kernel.asked[1]).toEqual({ do: 'measure' });
});

describe('advice that is accepted', () => {
  const change = { first: 2, last: 3, before: 'b\nc', after: 'd' } as IChange;

  it('is put into its cell when the kernel has checked it, and told', () => {
    const kernel = new Kernel();
    const put: IChange[] = [];
    let refusal = 'the cell has changed since';
    const model = new PanelModel(report(1), kernel, null, found => {
      put.push(found);
      return () => refusal;
    });
    model.accept(4);
    model.accept(5);
    expect(kernel.asked).toEqual([{ do: 'accept', way: 4 }]);
    expect(model.accepting).toBe(4);
    kernel.say({ accepted: 4, change });
    expect(put).toEqual([change]);
    expect(model.accepting).toBeNull();
    expect(model.taken).toEqual({ way: 4, change });
    model.takeBack();
    expect([model.error, model.taken]).toEqual([refusal, { way: 4, change }]);
    refusal = '';
    model.takeBack();
    expect([model.error, model.taken]).toEqual(['', null]);
  });

  it('is refused by the kernel, by the cell, and by a kernel that goes', () => {
    const kernel = new Kernel();
    const model = new PanelModel(report(1), kernel, null, () => 'the cell has changed');
    model.accept(4);
    kernel.say({ accepted: 4, error: 'it differs' });
    expect([model.error, model.accepting, model.taken]).toEqual([
      'it differs',
      null,
      null
    ]);
    model.accept(4);
    kernel.say({ accepted: 4, change });
    expect([model.error, model.taken]).toEqual(['the cell has changed', null]);
    model.accept(4);
    kernel.become('gone');
    expect(model.accepting).toBeNull();
  });

  it('replaces the lines that it is about, and no others', () => {
    expect(spanOf('a\nb\nc\nd', change)).toEqual([2, 5]);
    expect(spanOf('a\nb\nc', change)).toEqual([2, 5]);
    expect(spanOf('a\nb\nx', change)).toBeNull();
    expect(spanOf('a\nb', change)).toBeNull();
    expect(spanOf('', { first: 1, last: 2, before: '' })).toBeNull();
  });
});

test('a kernel that does not answer is said to be busy, until it does', () => {
  const kernel = new Kernel();
  const model = new PanelModel(report(1), kernel);
  model.resize({ n: 2 });
  expect(model.isLate).toBe(false);
  jest.advanceTimersByTime(2000);
  kernel.say({ report: report(1), seq: null });
  expect(model.isLate).toBe(true);
  kernel.say({ report: report(2), seq: 1 });
  expect(model.isLate).toBe(false);
});
