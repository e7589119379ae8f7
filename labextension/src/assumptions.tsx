import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { useView } from './context';
import { allreduceTime, ICostInput, INetwork, limitOf, quantity } from './cost';
import { Field, NumberInput } from './fields';
import { NetworkFields } from './networkfields';
import { IKnown } from './scaling';
import { IModelOffer, keyOf } from './offers';
import { SpeedupChart } from './speedupchart';
import { Mode, mostWorkers } from './training';

/** What an estimate rests on, and how it is made; folded away at first. */
export function Assumptions(props: {
  known: IKnown;
  mode: Mode;
  workers: number;
  offers: readonly IModelOffer[];
  offer: IModelOffer | undefined;
  parameters: number | null;
  origin: string;
  network: INetwork;
  onOffer: (key: string) => void;
  onParameters: (parameters: number | null) => void;
  onNetwork: (network: INetwork) => void;
}): JSX.Element {
  const { trans } = useView();
  const { known, mode, workers, offers, offer, network } = props;
  const { bytes, step } = known;
  return (
    <details className="jp-hvd-assumptions">
      <summary>{trans.__('Assumptions')}</summary>
      {offers.length > 1 && (
        <Field label={trans.__('Model')}>
          <HTMLSelect
            value={offer && keyOf(offer)}
            onChange={event => props.onOffer(event.target.value)}
          >
            {offers.map(each => (
              <option key={keyOf(each)} value={keyOf(each)}>
                {each.from === 'kernel'
                  ? trans.__('%1 (kernel)', each.name)
                  : trans.__('%1 (source)', each.name)}
              </option>
            ))}
          </HTMLSelect>
        </Field>
      )}
      <Field label={trans.__('Parameters')} help={props.origin}>
        <NumberInput value={props.parameters} step={1} onChange={props.onParameters} />
      </Field>
      <NetworkFields network={network} onChange={props.onNetwork} />
      {bytes !== null && (
        <Communication
          input={{ bytes, step: step ?? 0, network, mode }}
          workers={workers}
          most={mostWorkers(known.training, mode)}
        />
      )}
      <p className="jp-hvd-help">
        {trans.__(
          'Communication per step: 2(N−1)/N · bytes / bandwidth + 3(N−1) · latency. The workers share each batch: outputs are gathered, then all gradients averaged. Losses, the optimizer and batch normalization are not counted.'
        )}
      </p>
    </details>
  );
}

/** What is sent at each step, and the speed-up that this leaves. */
function Communication(props: {
  input: ICostInput;
  workers: number;
  most: number;
}): JSX.Element {
  const { trans } = useView();
  const { input, workers, most } = props;
  const time = allreduceTime(workers, input.bytes, input.network);
  return (
    <>
      <dl>
        <dt>{trans.__('Gradient data per step')}</dt>
        <dd>{quantity(input.bytes, 'B')}</dd>
        <dt>{trans.__('Communication per step')}</dt>
        <dd>{quantity(time, 's')}</dd>
      </dl>
      {input.step > 0 && (
        <SpeedupChart input={input} workers={workers} limit={limitOf(input, most)} />
      )}
    </>
  );
}
