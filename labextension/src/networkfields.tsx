import React, { useState } from 'react';

import { useView } from './context';
import { INetwork, quantity } from './cost';
import { Field, LogRange } from './fields';

/** Bandwidth and latency between workers, entered or measured. */
export function NetworkFields(props: {
  network: INetwork;
  onChange: (network: INetwork) => void;
}): JSX.Element {
  const { trans } = useView();
  const { network, onChange } = props;
  return (
    <>
      <Field label={trans.__('Bandwidth')} output={quantity(network.bandwidth, 'B/s')}>
        <LogRange
          from={1e8}
          to={1e12}
          value={network.bandwidth}
          text={quantity(network.bandwidth, 'B/s')}
          onChange={bandwidth => onChange({ ...network, bandwidth })}
        />
      </Field>
      <Field label={trans.__('Latency')} output={quantity(network.latency, 's')}>
        <LogRange
          from={1e-6}
          to={1e-3}
          value={network.latency}
          text={quantity(network.latency, 's')}
          onChange={latency => onChange({ ...network, latency })}
        />
      </Field>
      <Measure onMeasured={onChange} />
    </>
  );
}

/** Measure the network between the notebook's own workers. */
function Measure(props: { onMeasured: (network: INetwork) => void }): JSX.Element {
  const { said: translated, session, trans } = useView();
  const [isMeasuring, setMeasuring] = useState(false);
  const [said, setSaid] = useState('');
  const measure = async (): Promise<void> => {
    setMeasuring(true);
    const found = await session.facts.measureNetwork().catch(() => null);
    setMeasuring(false);
    if (found === null) {
      setSaid(trans.__('The kernel does not answer: it is busy, or there is none.'));
    } else if ('message' in found) {
      setSaid(translated(found.message));
    } else {
      const { ranks, bandwidth, latency, error } = found;
      setSaid(
        trans.__(
          'Measured between %1 workers, to within %2 %.',
          ranks,
          Math.round(100 * error)
        )
      );
      props.onMeasured({ bandwidth, latency });
    }
  };
  return (
    <div className="jp-hvd-field">
      <button
        type="button"
        className="jp-mod-styled"
        disabled={isMeasuring}
        onClick={() => void measure()}
      >
        {isMeasuring ? trans.__('Measuring…') : trans.__('Measure')}
      </button>
      <p className="jp-hvd-help" role="status">
        {said || trans.__('Bandwidth and latency between the workers of this notebook.')}
      </p>
    </div>
  );
}
