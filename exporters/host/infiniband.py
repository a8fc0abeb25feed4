"""Ports of InfiniBand and RoCE, from ``/sys/class/infiniband``, with the names and labels of node_exporter.

Each counter costs a query of the adapter. So only traffic is read, and what explains a slow link: waits, discards, errors,
retransmissions, and the notifications of congestion.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hypergauge.core.system.kernel_file import list_folder, read_file
from hypergauge.exporters.serving.families import Measurement

__all__ = ["INFINIBAND_HELPS", "infiniband_ports"]

_PREFIX = "node_infiniband"
# By the counter's file: its metric and help text.
_COUNTERS = {
    "counters/port_rcv_data": ("port_data_received_bytes", "Number of data octets received on all links"),
    "counters/port_xmit_data": ("port_data_transmitted_bytes", "Number of data octets transmitted on all links"),
    "counters/port_rcv_packets": (
        "port_packets_received",
        "Number of packets received on all VLs by this port (including errors)",
    ),
    "counters/port_xmit_packets": (
        "port_packets_transmitted",
        "Number of packets transmitted on all VLs from this port (including errors)",
    ),
    "counters/port_xmit_wait": (
        "port_transmit_wait",
        "Number of ticks during which the port had data to transmit but no data was sent during the entire tick",
    ),
    "counters/port_xmit_discards": (
        "port_discards_transmitted",
        "Number of outbound packets discarded by the port because the port is down or congested",
    ),
    "counters/port_rcv_errors": (
        "port_errors_received",
        "Number of packets containing an error that were received on this port",
    ),
    "counters/link_downed": (
        "link_downed",
        "Number of times the link failed to recover from an error state and went down",
    ),
    "hw_counters/out_of_sequence": (
        "out_of_sequence_packets_received",
        "The number of out of sequence packets received.",
    ),
    "hw_counters/packet_seq_err": (
        "packet_sequence_errors",
        "The number of received NAK sequence error packets. The QP retry limit was not exceeded.",
    ),
    "hw_counters/local_ack_timeout_err": (
        "local_ack_timeout_errors",
        (
            "The number of times QP's ack timer expired for RC, XRC, DCT QPs at the sender side. The QP retry limit was not"
            " exceed, therefore it is still recoverable error."
        ),
    ),
    "hw_counters/out_of_buffer": (
        "out_of_buffer_drops",
        "The number of drops occurred due to lack of WQE for the associated QPs.",
    ),
    "hw_counters/roce_adp_retrans": (
        "roce_adp_retransmits",
        (
            "The number of adaptive retransmissions for RoCE traffic. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 and"
            " kernel v5.6.0"
        ),
    ),
    "hw_counters/np_cnp_sent": (
        "np_cnp_packets_sent",
        (
            "The number of CNP packets sent by the Notification Point when it noticed congestion experienced in the RoCEv2"
            " IP header (ECN bits). The counters was added in MLNX_OFED 4.1"
        ),
    ),
    "hw_counters/rp_cnp_handled": (
        "rp_cnp_packets_handled",
        (
            "The number of CNP packets handled by the Reaction Point HCA to throttle the transmission rate. The counters was"
            " added in MLNX_OFED 4.1"
        ),
    ),
}
INFINIBAND_HELPS = {f"{_PREFIX}_{name}_total": text for name, text in _COUNTERS.values()}
# The adapter counts data in words of 4 bytes.
_WORDS = {"counters/port_rcv_data", "counters/port_xmit_data"}


def infiniband_ports(folder: Path) -> Iterator[Measurement]:
    """Yield the metrics of each port, without the counters that it lacks.

    Parameters
    ----------
    folder
        ``/sys/class/infiniband``.
    """
    for device in list_folder(folder):
        ports = folder / device / "ports"
        for port in list_folder(ports):
            labels = {"device": device, "port": port}
            for file, (name, _) in _COUNTERS.items():
                # Some drivers write "N/A (no PMA)".
                if (text := read_file(ports / port / file)).isdecimal():
                    yield f"{_PREFIX}_{name}_total", labels, int(text) * (4 if file in _WORDS else 1)
