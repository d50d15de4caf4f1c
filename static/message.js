// @ts-check
// The types of the messages on the WebSocket, with the members that the page reads.

/** @typedef {number | null} Float null: there is no value, which is unlike 0 */

/**
 * @typedef {object} Process
 * @property {number} pid
 * @property {string} process_name
 * @property {string | null} [program]
 * @property {Float} used_memory_mb
 * @property {string} type
 * @property {Float} sm_percent
 * @property {Float} encoder_percent
 * @property {Float} decoder_percent
 * @property {Float} [video_percent]
 * @property {string | null} user
 * @property {string | null} command
 * @property {string | null} started_at
 * @property {Float} gpu_instance_id
 * @property {{id: string, name: string | null} | null} [container]
 * @property {{uid: string, name: string | null} | null} [pod]
 * @property {{name: string} | null} [unit]
 * @property {{id: number} | null} [slurm_job]
 * @property {Float} power_watts
 * @property {Record<string, string>} [quality]
 */

/**
 * @typedef {object} Layers
 * @property {string} headline
 * @property {boolean} [broken]
 * @property {{text: string, warning: boolean}[]} facts
 * @property {string} rest
 * @property {{text: string, command: string}} action
 * @property {{kind: string, text: string, sentence: string, left_seconds: Float}[]} [next]
 */

/**
 * @typedef {object} Readings
 * @property {number} gpu_id
 * @property {string} gpu_name
 * @property {string} gpu_uuid
 * @property {string} node
 * @property {string} source
 * @property {string} state
 * @property {string} state_since
 * @property {string} state_reason
 * @property {string | null} sampled_at
 * @property {{gpu_percent: Float}} utilization
 * @property {{memory_bandwidth_percent: Float} | null} activity
 * @property {{used_mb: Float, total_mb: Float, utilization_percent: Float}} memory
 * @property {{unified: boolean | null, used_mb: Float}} shared_memory
 * @property {boolean | null} processes_partial
 * @property {{current_celsius: Float, slowdown_threshold_celsius: Float, margin_celsius: Float}} temperature
 * @property {{power_draw_watts: Float, power_limit_watts: Float}} power
 * @property {{sm_clock_mhz: Float, graphics_clock_mhz: Float, max_sm_clock_mhz: Float}} clocks
 * @property {string | null} performance_state
 * @property {Float} fan_speed_percent
 * @property {{rpm: Float, policy: string | null}[]} fans
 * @property {string[] | null} clock_event_reasons
 * @property {Process[]} processes
 * @property {unknown[]} instances
 * @property {Record<string, string>} quality
 */

/** @typedef {Readings & Layers} GPU */

/**
 * @typedef {object} Disk
 * @property {string} device
 * @property {string} mount
 * @property {Float} total_mb
 * @property {Float} used_mb
 * @property {Float} read_bytes_per_second
 * @property {Float} write_bytes_per_second
 */

/**
 * @typedef {object} Network
 * @property {string} name
 * @property {Float} received_bytes_per_second
 * @property {Float} sent_bytes_per_second
 */

/**
 * @typedef {object} Host
 * @property {string} hostname
 * @property {string} os
 * @property {string} kernel
 * @property {Float} uptime_seconds
 * @property {string | null} cpu_model
 * @property {Float} cpu_cores
 * @property {Float} cpu_percent
 * @property {Float} load_1
 * @property {Float} load_5
 * @property {Float} load_15
 * @property {Float} cpu_power_watts
 * @property {boolean | null} cpu_throttled
 * @property {HostProcess[] | null} busiest
 * @property {Float} memory_total_mb
 * @property {Float} memory_used_mb
 * @property {Float} swap_total_mb
 * @property {Float} swap_used_mb
 * @property {Disk[]} disks
 * @property {Network[]} networks
 * @property {{name: string, rpm: Float}[]} fans
 * @property {{name: string, celsius: Float}[]} temperatures
 * @property {Record<string, Float>} [kept] where there is no GPU
 * @property {{cpu_percent: Float, memory_mb: Float}} self
 */

/**
 * @typedef {object} HostUse
 * @property {number} pid
 * @property {number} process_count
 * @property {number} cpu_percent
 * @property {string} process_name
 * @property {string | null} program
 * @property {string | null} user
 */

/** @typedef {HostUse & Pick<Process, "pod" | "container" | "slurm_job" | "unit">} HostProcess */

/**
 * @typedef {object} Cause
 * @property {string} id
 * @property {string} node
 * @property {string | null} gpu_uuid null: the cause is about the machine
 * @property {string} sentence
 * @property {"high" | "medium" | "low"} certainty
 * @property {string | null} since
 * @property {{name: string, text: string, at: string | null, moment?: boolean}[]} evidence
 * @property {string} advice
 */

/** @typedef {Snapshot & Layers} Update */

/**
 * @typedef {object} Snapshot
 * @property {number} seq
 * @property {string} timestamp
 * @property {string | null} node null: the update has several nodes
 * @property {number} [node_count]
 * @property {string} source
 * @property {string} status
 * @property {string} why
 * @property {Cause[]} causes at most 64, of the loudest GPUs
 * @property {number} gpu_count
 * @property {number} answering_gpu_count
 * @property {number} busy_gpu_count
 * @property {number} process_count
 * @property {Float} total_memory_used_mb
 * @property {Float} total_memory_total_mb
 * @property {number} unified_memory_gpu_count
 * @property {Float} total_power_draw_watts
 * @property {GPU[]} gpus
 * @property {string[]} notes
 * @property {Host | null} host
 * @property {{source: string, driver_version: string | null, cuda_driver_version: string | null}[]} drivers
 * @property {string} found
 * @property {{source: string, since: string, what: string, try: string, next_try: string | null}[]} failures
 */

/**
 * @typedef {object} Status
 * @property {string} version
 * @property {number} interval_seconds
 * @property {Update | null} snapshot null: there is no reading yet, or several nodes send an update each
 * @property {{name: string, state: string, age_seconds: number, gpu_count: number}[]} [nodes]
 */

/**
 * @typedef {object} Alert
 * @property {string} alert_id
 * @property {string} rule
 * @property {string} severity
 * @property {{by: string, comment: string} | null} [acknowledged]
 * @property {string | null} [silenced_until]
 * @property {string} gpu_uuid
 * @property {string} node
 * @property {number} gpu_id
 * @property {string} state
 * @property {string} since
 * @property {string} timestamp
 * @property {string} message
 */

/**
 * The answer of GET api/gpu/recent. All series share the times.
 * @typedef {object} Recent
 * @property {string} start
 * @property {number[]} offsets_seconds
 * @property {{gpu_id: number, gpu_uuid: string, node: string, values: Record<string, Float[]>}[]} gpus
 * @property {{node: string, values: Record<string, Float[]>}[]} [machines] those that had no GPU
 */

export {};
