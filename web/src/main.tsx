import { render } from 'preact';
import 'uplot/dist/uPlot.min.css';
import './styles/base.css';
import './styles/layout.css';
import './styles/panels.css';
import { App } from './app.tsx';

render(<App />, document.getElementById('app')!);
